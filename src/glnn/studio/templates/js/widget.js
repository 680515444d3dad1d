// The studio as a widget of a notebook, in a shadow root so that no style of either reaches the other.
function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = STYLE;
  const body = new DOMParser().parseFromString(BODY, "text/html").body;
  root.append(style, ...body.childNodes);
  const link = makeWidgetLink(model);
  makeStudio(root, link);
  return () => link.end();
}

export default { render };
