// The map of the report page with the labels given since its data were made.
const MANY_LINKS = 2000;

function makeAtlas(root, link, actions) {
  const by = (id) => root.getElementById(id);
  const model = {};
  const given = new Map(); // labels of rows by id as they are now, null for none
  const state = makeState({
    mode: "predicted", minWeight: 0, perNode: 0, fates: [true, true, false], sideBySide: false,
    cell: null, filter: null, hovered: -1, selected: -1, faint: 0.75, paint: 0,
  });
  let [map, places, drawn, wanted, current, due] = [null, new Map(), 0, 0, null, 0];
  let [isLoading, hasFit] = [false, false];

  function mark(id) {
    const node = places.get(id);
    if (node === undefined) return;
    const label = given.get(id);
    let number = label === null ? 0 : model.classes.indexOf(label) + 1;
    if (label !== null && !number) number = model.classes.push(label);
    model.truth[node] = number;
    model.flags[node] = label === null ? 0 : number === model.labelled[node] ? model.flagged[node] : 1;
  }

  function paint() { // later, so that the next row is there first
    clearTimeout(due);
    due = setTimeout(() => state.set({ paint: state.get().paint + 1 }), 0);
  }

  async function load(version, isFitted) {
    [wanted, hasFit] = [Math.max(wanted, version), isFitted];
    if (isLoading || drawn === wanted) return;
    isLoading = true;
    try {
      while (drawn < wanted) {
        const loading = wanted;
        show(await unpackData(await link.map()));
        drawn = loading;
      }
    } finally {
      isLoading = false;
    }
  }

  function show(data) {
    if (!hasFit) data.predicted.fill(0);
    Object.assign(model, makeModel(data), { labelled: data.truth.slice(), flagged: data.flags.slice() });
    places = new Map(model.ids.map((id, node) => [id, node]));
    for (const id of given.keys()) mark(id);
    by("no-map").hidden = true;
    by("panes").hidden = false;
    Object.assign(state.get(), { perNode: model.nLinks > MANY_LINKS ? 3 : 0, hovered: -1, selected: places.get(current) ?? -1 });
    if (map) state.set({ model: data });
    else map = begin();
    actions.drawn();
  }

  function begin() {
    const made = makeMap(model, state, root);
    state.listen(["selected"], ({ selected }) => {
      const id = selected < 0 ? null : model.ids[selected];
      if (id !== current) actions.look(id);
    });
    by("mode").addEventListener("change", (event) => state.set({ mode: event.target.value }));
    by("zoom-in").addEventListener("click", made.zoomIn);
    by("zoom-out").addEventListener("click", made.zoomOut);
    by("zoom-reset").addEventListener("click", made.reset);
    const changed = () => state.set({ paint: state.get().paint + 1 });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
    return made;
  }

  function colourOf(name) {
    const number = model.classes?.indexOf(name) ?? -1;
    return number < 0 ? "var(--muted)" : `var(--class-${number % N_COLOURS})`;
  }

  return {
    load, colourOf,
    change(changes) {
      for (const { id, label } of changes) {
        given.set(id, label);
        if (map) mark(id);
      }
      if (map && changes.length) paint();
    },
    point(id) {
      current = id;
      const selected = places.get(id) ?? -1;
      if (map && state.get().selected !== selected) state.set({ selected });
    },
  };
}
