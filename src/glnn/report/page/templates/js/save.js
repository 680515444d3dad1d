// Save the listed nodes as a CSV file with the columns of predictions.csv, and the model card as Markdown.
function csvText(model, nodes) {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = [
    model.idName, "given_label", "predicted", "probability", ...model.classes.map((c) => `p(${c})`), "known_label",
    "suspect", ...model.table.map((column) => column.name),
  ];
  const label = (node) => (model.truth[node] ? model.className(model.truth[node]) : "");
  const lines = nodes.map((node) => [
    model.ids[node], model.seen(node) ? label(node) : "", model.className(model.predicted[node]),
    model.confidence[node].toFixed(4), ...model.classes.map((_, c) => model.probability(node, c).toFixed(4)),
    label(node), model.suspect(node) ? "yes" : "no", ...model.table.map((_, k) => model.cell(k, node)),
  ]);
  return [head, ...lines].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

function saveFile(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
