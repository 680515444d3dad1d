// The card of a row: why it was chosen, a button for each class, its values and its neighbours.
const KINDS = {
  suggested: "Proposed next", diverse: "Proposed to begin with", "second look": "A label in doubt",
  skipped: "Skipped before", chosen: "Chosen by you",
};
const N_VALUES = 12;
const N_NEAR = 8;
const DIGIT = /^[0-9]$/;

// The key of each class: its name if all are single digits, else 1 to 9 and 0 in the order of the list.
function keysOf(names) {
  if (names.every((name) => DIGIT.test(name))) return names;
  return names.map((_, k) => (k < 10 ? String((k + 1) % 10) : ""));
}

function makeRow(root, actions) {
  const by = (id) => root.getElementById(id);
  const choices = new Map(); // buttons by class, made once for each class

  function showClasses(given, colourOf) {
    const classes = given.every(({ name }) => DIGIT.test(name)) ? given.toSorted((a, b) => a.name - b.name) : given;
    const names = classes.map(({ name }) => name);
    const keys = keysOf(names);
    classes.forEach(({ name, count }, k) => {
      if (!choices.has(name)) choices.set(name, makeChoice(name, actions.label));
      const { button, key, number } = choices.get(name);
      key.textContent = keys[k];
      key.hidden = !keys[k];
      if (keys[k]) button.setAttribute("aria-keyshortcuts", keys[k]);
      number.textContent = `${count.toLocaleString("en")} ${count === 1 ? "label" : "labels"}`;
      button.style.borderLeftColor = colourOf(name);
    });
    const buttons = names.map((name) => choices.get(name).button);
    const box = by("choices");
    if (buttons.length !== box.children.length || buttons.some((button, k) => box.children[k] !== button)) {
      box.replaceChildren(...buttons);
      box.classList.toggle("wide", names.some((name) => name.length > 12));
      by("class-names").replaceChildren(...names.map((name) => new Option(name, name)));
    }
    for (const name of [...choices.keys()]) if (!names.includes(name)) choices.delete(name);
    return new Map(names.map((name, k) => [keys[k], name]).filter(([key]) => key));
  }

  function showCard(card) {
    for (const id of ["skip", "unsure", "new"]) by(id).disabled = !card;
    by("kind").textContent = card ? KINDS[card.kind] ?? card.kind : "";
    by("back").hidden = card?.kind !== "chosen";
    by("skip-word").textContent = card?.kind === "second look" ? "Keep the label" : "Skip";
    by("row-title").textContent = card ? card.id : "All rows are done";
    by("reason").textContent = card ? card.reason : "Every row has a label, or you could not tell.";
    const label = { labelled: `Label now: ${card?.label}`, unsure: "You could not tell.", skipped: "Skipped." }[card?.status];
    by("label-now").hidden = !label;
    by("label-now").textContent = label ?? "";
    showChances(card);
    showValues(card?.values ?? []);
    showNear(card?.neighbours ?? []);
  }

  function showChances(card) {
    const chances = new Map(card?.probabilities ?? []);
    for (const [name, { button, meter, chance }] of choices) {
      button.disabled = !card;
      button.setAttribute("aria-current", String(card?.predicted === name));
      meter.hidden = !chances.has(name);
      meter.value = chances.get(name) ?? 0;
      chance.textContent = chances.has(name) ? percent(meter.value) : "";
    }
  }

  function showValues(values) {
    by("values").replaceChildren(...(values.length ? [valueList(values.slice(0, N_VALUES))] : []));
    const rest = values.slice(N_VALUES);
    const more = by("more");
    more.hidden = !rest.length;
    more.querySelector("summary").textContent = `${rest.length} more values`;
    more.querySelector("div").replaceChildren(...(rest.length ? [valueList(rest)] : []));
  }

  function showNear(neighbours) {
    by("near").hidden = !neighbours.length;
    by("near").querySelector("ol").replaceChildren(...neighbours.slice(0, N_NEAR).map((near) => {
      const words = near.label !== null ? `labelled ${near.label}` : near.predicted !== null ? `predicted ${near.predicted}` : "not labelled";
      return neighbourItem(near.id, near.weight.toFixed(3), words, () => actions.look(near.id));
    }));
  }

  return { showClasses, showCard };
}

function makeChoice(name, label) {
  const button = element("button", undefined, "choice");
  button.type = "button";
  const [key, chance, meter, number] = ["kbd", "small", "meter", "small"].map((kind) => element(kind));
  meter.setAttribute("aria-label", `probability of ${name}`);
  const [upper, lower] = [element("span"), element("span")];
  upper.append(key, element("b", name));
  lower.append(chance, number);
  button.append(upper, lower, meter);
  button.addEventListener("click", () => label(name));
  return { button, key, chance, meter, number };
}

// Pairs of a column and a value, in as many columns as there is room for if all of them are short.
function valueList(pairs) {
  if (pairs.some(([name, value]) => name.length + value.length > 14)) return factList(pairs, "own");
  const list = element("dl", undefined, "own many");
  for (const [name, value] of pairs) {
    const item = element("div");
    item.append(element("dt", name), element("dd", value || "–"));
    list.append(item);
  }
  return list;
}
