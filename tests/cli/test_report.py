from glnn.cli.main import BAD_INPUT, main


def test_the_page_of_a_run_is_made_again(finished, tmp_path, capsys):
    again = tmp_path / "again.html"
    assert main(["report", str(finished / "run"), "--out", str(again)]) == 0
    assert capsys.readouterr().out.strip() == str(again)
    first = (finished / "run" / "report.html").read_text(encoding="utf-8")
    assert again.read_text(encoding="utf-8").split("<script")[0] == first.split("<script")[0]


def test_a_folder_that_is_no_run_is_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == BAD_INPUT
    assert "folder of a run" in capsys.readouterr().err
