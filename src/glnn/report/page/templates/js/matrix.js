// The adjacency matrix ordered by class, a picture for each round.
function makeMatrix(data, state) {
  const canvas = document.getElementById("matrix");
  if (!canvas || !data.matrices) return;
  const slider = document.getElementById("round");
  const words = document.getElementById("round-name");
  const side = data.matrixSide;

  function draw() {
    const round = Number(slider ? slider.value : 0);
    const theme = readTheme();
    const [from, to] = [rgbOf(theme.ground), rgbOf(theme.accent)];
    const image = new ImageData(side, side);
    for (let p = 0; p < side * side; p += 1) {
      const share = data.matrices[round * side * side + p] / 255;
      for (let c = 0; c < 3; c += 1) image.data[4 * p + c] = from[c] + share * (to[c] - from[c]);
      image.data[4 * p + 3] = 255;
    }
    [canvas.width, canvas.height] = [side, side];
    const context = canvas.getContext("2d");
    context.putImageData(image, 0, 0);
    words.textContent = data.matrixNames[round];
    if (slider) slider.setAttribute("aria-valuetext", data.matrixNames[round]);
    canvas.setAttribute("aria-label", `Adjacency matrix ordered by class, ${data.matrixNames[round]}`);
  }
  if (slider) slider.addEventListener("input", draw);
  state.listen(["paint"], draw);
  draw();
}
