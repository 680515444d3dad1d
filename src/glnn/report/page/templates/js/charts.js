// Show Bokeh's charts, and give their text and lines the colours of the theme.
const INKS = [
  "axis_label_text_color", "major_label_text_color", "label_text_color", "title_text_color", "text_color",
];
const LINES = ["axis_line_color", "major_tick_line_color", "grid_line_color"];

function paintCharts(views) {
  const theme = readTheme();
  for (const view of views) {
    for (const model of view.model.document.all_models) {
      for (const name of INKS) if (name in model.properties) model[name] = theme.ink;
      for (const name of LINES) if (name in model.properties) model[name] = theme.line;
      if (model.type === "Legend") Object.assign(model, { background_fill_alpha: 0, border_line_alpha: 0 });
    }
  }
}

async function makeCharts(state) {
  const block = document.getElementById("charts");
  if (!block || typeof Bokeh === "undefined") return;
  const views = [];
  for (const item of JSON.parse(block.textContent)) {
    if (document.getElementById(item.target_id)) {
      const shown = await Bokeh.embed.embed_item(item);
      views.push(...(shown.roots || [shown]));
    }
  }
  paintCharts(views);
  state.listen(["paint"], () => paintCharts(views));
}
