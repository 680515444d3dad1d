// The studio in a document or a shadow root: it shows the session's state and sends what the user does.
async function makeStudio(root, link) {
  const by = (id) => root.getElementById(id);
  let [now, card, keys, isBusy] = [null, null, new Map(), false];
  const atlas = makeAtlas(root, link, {
    look,
    drawn: () => { if (now) keys = row.showClasses(now.classes, atlas.colourOf); },
  });
  const row = makeRow(root, { label: (value) => answer("label", { value }), look });

  // Take over a state; the row that is shown stays until the user answers, or another page has done so.
  // An answer that comes after a newer state still shows the row that the user asked for.
  function take(state, shown) {
    if (now && state.version < now.version) {
      if (shown !== undefined) showCard(shown);
      return;
    }
    const isDone = state.changes.some(({ id }) => id === card?.id);
    now = state;
    keys = row.showClasses(now.classes, atlas.colourOf);
    atlas.change(now.changes);
    if (shown !== undefined) showCard(shown);
    else if (!card || isDone) showCard(now.proposals[0] ?? null);
    else showCard(now.proposals.find(({ id }) => id === card.id) ?? card);
    showProgress(root, now);
    if (now.fit_version) atlas.load(now.fit_version, Boolean(now.fit.kind)).catch(fail);
    by("problem").hidden = true;
  }

  function showCard(shown) {
    card = shown;
    row.showCard(card);
    atlas.point(card?.id ?? null);
  }

  function fail(error) {
    if (by("problem").textContent !== error.message) by("problem").textContent = error.message;
    by("problem").hidden = false;
  }

  const send = (message) => link.act({ k: 1, since: now?.version ?? 0, ...message });

  // One thing at a time: a key counts for the row that is shown, and until the next is there for none.
  async function doing(work) {
    if (isBusy) return;
    isBusy = true;
    try {
      await work();
    } catch (error) {
      fail(error);
    } finally {
      isBusy = false;
    }
  }

  const answer = (act, more = {}) => doing(async () => {
    if (!card) return;
    const { id } = card;
    const state = await send({ act, id, ...more });
    take(state, state.proposals[0] ?? null);
    const done = { label: `labelled ${more.value}`, skip: "skipped", unsure: "marked as \"cannot tell\"" }[act];
    announce(`${id} ${done}. ${card ? `Next row: ${card.id}` : "No row is left"}.`, root);
  });

  function look(id) {
    return doing(async () => {
      if (id === null && card?.kind !== "chosen") atlas.point(card?.id ?? null);
      else if (id === null) {
        const state = await send({ act: "next" });
        take(state, state.proposals[0] ?? null);
      } else {
        const state = await send({ act: "card", id });
        take(state, state.card);
        announce(`Looking at ${id}.`, root);
      }
    });
  }

  const undo = () => doing(async () => {
    if (!now?.undo) return;
    const { id } = now.undo;
    const state = await send({ act: "undo" });
    if (id) {
      const again = await link.act({ act: "card", id, k: 1, since: now.version });
      take(again, again.card);
    } else take(state);
    announce(`Undone${id ? `: ${id} is shown again` : ""}.`, root);
  });

  const estimate = () => doing(async () => take(await send({ act: "fit" })));
  const save = () => doing(async () => saveFile("labels.csv", await link.labels(), "text/csv"));

  makeNaming(root, (value) => answer("label", { value }));
  const buttons = { undo, estimate, save, skip: () => answer("skip"), unsure: () => answer("unsure"), back: () => look(null) };
  for (const [id, act] of Object.entries(buttons)) by(id).addEventListener("click", act);
  by("new").addEventListener("click", () => openNaming(root));
  by("keys").addEventListener("click", () => by("help").showModal());
  listenToStudioKeys(root, (key) => keys.get(key), (value) => answer("label", { value }));
  await link.listen(async () => {
    let [state, since] = [null, null];
    do { // if an answer came in between, this state would tell of its changes again
      since = now?.version;
      state = await send({ act: "state" });
    } while (since !== now?.version);
    take(state, isBusy ? card : undefined); // the answer under way shows the next row, for which keys count
  }, fail);
}

// Counts, the fit, the verdict and the curve.
function showProgress(root, now) {
  const by = (id) => root.getElementById(id);
  const number = (count) => count.toLocaleString("en");
  const { labelled, skipped, unsure } = now.counts;
  const aside = [[skipped, "skipped"], [unsure, "cannot tell"]].filter(([count]) => count);
  const rest = aside.map(([count, words]) => `, ${number(count)} ${words}`).join("");
  by("title").textContent = now.name;
  if (root === document) document.title = `${labelled} labels: ${now.name}`;
  by("counts").textContent = `${number(labelled)} of ${number(now.n_rows)} rows labelled${rest}`;
  by("fit").textContent = fitWords(now.fit);
  by("fit").classList.toggle("running", Boolean(now.fit.running));
  by("fit-problem").hidden = !now.fit.error;
  by("fit-problem").textContent = now.fit.error && `The last fit failed: ${now.fit.error} The page shows the results of the fit before it.`;
  by("verdict").textContent = now.verdict.replaceAll(" %", "\u00a0%");
  by("undo").disabled = !now.undo;
  const { act, id, value } = now.undo ?? {};
  by("undo").title = now.undo ? { label: `take back ${id}: ${value}`, skip: `take back the skip of ${id}`, unsure: `take back "cannot tell" of ${id}` }[act] ?? "" : "";
  drawCurve(by("curve"), now.curve);
}

function fitWords({ running, kind, n_labels: count, seconds }) {
  if (running) return { quick: "learning …", checked: "learning, and checking on hidden labels …", full: "learning the full model …" }[running];
  return kind ? `learned from ${count.toLocaleString("en")} labels in ${seconds.toFixed(1)} s` : "nothing learned yet";
}

function openNaming(root) {
  root.getElementById("naming").hidden = false;
  root.getElementById("class-name").focus();
}

// The form in which a class is named; it gives the focus back when it closes.
function makeNaming(root, label) {
  const [form, input] = ["naming", "class-name"].map((id) => root.getElementById(id));
  const close = () => {
    form.hidden = true;
    input.value = "";
    root.getElementById("studio").focus({ preventScroll: true });
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = input.value.trim();
    if (value) label(value);
    close();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  root.getElementById("naming-end").addEventListener("click", close);
}

function listenToStudioKeys(root, classOf, label) {
  const names = { s: "skip", u: "unsure", z: "undo", n: "new", f: "estimate", "?": "keys", Escape: "back" };
  root.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, dialog");
    if (event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    const value = classOf(event.key);
    const button = names[event.key] && root.getElementById(names[event.key]);
    if (value !== undefined) label(value);
    else if (button && !button.disabled && !button.hidden) button.click();
    else return;
    event.preventDefault();
    event.stopPropagation(); // a notebook has keys of its own
  });
}
