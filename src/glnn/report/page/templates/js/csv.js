// Save the listed nodes as a CSV file.
function csvText(model, nodes) {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = ["id", "known_label", "label_given", "predicted", "probability", "suspect", ...model.classes.map((c) => `p_${c}`)];
  const lines = nodes.map((node) => [
    model.ids[node], model.truth[node] ? model.className(model.truth[node]) : "", String(model.seen(node)),
    model.className(model.predicted[node]), model.confidence[node].toFixed(4), String(model.suspect(node)),
    ...model.classes.map((_, c) => model.probability(node, c).toFixed(4)),
  ]);
  return [head, ...lines].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

function saveCsv(model, nodes) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvText(model, nodes)], { type: "text/csv" }));
  link.download = "nodes.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
