from glnn.report.palette import COLOURS, MARKS, colour_and_mark


def test_no_two_of_the_first_classes_look_alike():
    looks = [colour_and_mark(number) for number in range(len(COLOURS) * len(MARKS))]
    assert len(set(looks)) == len(looks)


def test_colours_differ_also_in_lightness_or_hue():
    def rgb(colour):
        return [int(colour[k : k + 2], 16) for k in (1, 3, 5)]

    for k, one in enumerate(COLOURS):
        for other in COLOURS[:k]:
            assert sum(abs(a - b) for a, b in zip(rgb(one), rgb(other))) > 60
