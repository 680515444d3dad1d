// Find a node by its id: exact matches first, then ids that begin with the text, then ids that contain it.
const MOST_FOUND = 8;

function findNodes(model, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const ranked = [[], [], []];
  for (let node = 0; node < model.n; node += 1) {
    const id = model.ids[node].toLowerCase();
    const at = id.indexOf(wanted);
    if (at >= 0) ranked[id === wanted ? 0 : at === 0 ? 1 : 2].push(node);
  }
  return ranked.flat().slice(0, MOST_FOUND);
}

function makeSearch(model, state, map) {
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const form = input.closest("form");
  const choose = (node) => {
    list.replaceChildren();
    input.value = model.ids[node];
    map.goTo(node);
  };
  input.addEventListener("input", () => {
    const found = findNodes(model, input.value);
    list.replaceChildren(...found.map((node) => {
      const item = element("li");
      const button = element("button", model.ids[node], "plain");
      button.type = "button";
      button.addEventListener("click", () => choose(node));
      item.append(button);
      return item;
    }));
    if (input.value) announce(`${found.length} ids found`);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [node] = findNodes(model, input.value);
    if (node === undefined) announce(`No row has the id ${input.value}.`);
    else choose(node);
  });
}
