// Decode the data block: Base64 of gzip of a header, words and arrays (see encode_block in subset.py).
async function unpackData(encoded) {
  const packed = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = await new Response(stream).arrayBuffer();
  const kinds = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
  const text = new TextDecoder();
  const size = new DataView(whole).getUint32(0, true);
  let at = 4 + size;
  const data = {};
  for (const entry of JSON.parse(text.decode(new Uint8Array(whole, 4, size)))) {
    const count = entry.shape.reduce((a, b) => a * b, 1);
    const Kind = kinds[entry.kind] || Uint8Array;
    const block = new Kind(whole, at, count);
    if (entry.kind === "json") Object.assign(data, JSON.parse(text.decode(block)));
    else data[entry.name] = block;
    const bytes = count * Kind.BYTES_PER_ELEMENT;
    at += bytes + ((4 - (bytes % 4)) % 4);
  }
  return data;
}
