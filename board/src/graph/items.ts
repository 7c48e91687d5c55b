// What WebGL draws: boxes or arrows in a texture, in chunks of neighbours, and the programs that read it.
import * as twgl from "twgl.js";

const CHUNK = 1024;

// The vertices of an item are counted, not stored: software renderers draw instances one by one, which takes them long.
const FETCH = `#version 300 es
precision highp float;
precision highp usampler2D;
uniform usampler2D data; uniform vec3 camera; uniform vec2 size; uniform float ratio; uniform int perItem; uniform int stride;
uvec4 texel(int at) { return texelFetch(data, ivec2(at & 2047, at >> 11), 0); }
vec4 unpacked(uint c) { return vec4(c & 255u, (c >> 8) & 255u, (c >> 16) & 255u, c >> 24) / 255.0; }
vec4 onScreen(vec2 pixel) { return vec4(pixel / size * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0); }
const vec2 CORNERS[6] = vec2[6](vec2(0, 0), vec2(1, 0), vec2(0, 1), vec2(0, 1), vec2(1, 0), vec2(1, 1));
`;
export const BOX_VERTEX = `${FETCH}
out vec2 place; out vec2 extent; out vec4 inner; out vec4 edge;
void main() {
  int item = gl_VertexID / 6 * stride;
  vec4 rect = uintBitsToFloat(texel(2 * item));
  vec2 more = rect.zw * (sqrt(float(stride)) - 1.0);
  rect += vec4(-0.5 * more, more);
  uvec4 colors = texel(2 * item + 1);
  extent = max(rect.zw * camera.z, vec2(1.0));
  place = CORNERS[gl_VertexID % 6] * extent;
  gl_Position = onScreen((rect.xy - camera.xy) * camera.z + place);
  inner = unpacked(colors.x); edge = unpacked(colors.y);
}`;
export const BOX_PIXEL = `#version 300 es
precision mediump float;
in vec2 place; in vec2 extent; in vec4 inner; in vec4 edge;
uniform float ratio;
out vec4 color;
void main() {
  float radius = min(5.0 * ratio, min(extent.x, extent.y) * 0.25);
  vec2 q = abs(place - extent * 0.5) - extent * 0.5 + radius;
  float away = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - radius;
  float line = min(1.2 * ratio, min(extent.x, extent.y) * 0.25);
  vec4 both = mix(edge, inner, smoothstep(0.0, min(1.0, min(extent.x, extent.y) * 0.1), -away - line));
  float cover = extent.x < 4.0 ? 1.0 : clamp(0.5 - away, 0.0, 1.0);
  color = vec4(both.rgb * both.a, both.a) * cover;
}`;
export const ARROW_VERTEX = `${FETCH}
out vec4 tint;
vec2 at(vec4 ends, float t) {
  vec2 a = (ends.xy - camera.xy) * camera.z;
  vec2 b = (ends.zw - camera.xy) * camera.z;
  float bend = max(abs(b.y - a.y) * 0.5, min(24.0 * camera.z, 24.0));
  vec2 c = a + vec2(0.0, bend), d = b - vec2(0.0, bend);
  float s = 1.0 - t;
  return s * s * s * a + 3.0 * s * s * t * c + 3.0 * s * t * t * d + t * t * t * b;
}
void main() {
  int item = gl_VertexID / perItem * stride, turn = gl_VertexID % perItem;
  vec4 ends = uintBitsToFloat(texel(2 * item));
  vec2 corner = CORNERS[turn % 6];
  float t = (float(turn / 6) + corner.y) / float(perItem / 6);
  vec2 way = at(ends, min(t + 0.02, 1.0)) - at(ends, max(t - 0.02, 0.0));
  vec2 across = length(way) > 0.0 ? normalize(vec2(-way.y, way.x)) : vec2(0.0, 1.0);
  gl_Position = onScreen(at(ends, t) + across * (2.0 * corner.x - 1.0) * ratio * clamp(camera.z * 1.6, 0.5, 0.9));
  tint = unpacked(texel(2 * item + 1).x);
}`;
export const ARROW_PIXEL = `#version 300 es
precision mediump float;
in vec4 tint;
out vec4 color;
void main() { color = vec4(tint.rgb * tint.a, tint.a); }`;

export interface Chunk {
  start: number;
  count: number;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  color: number;
}

const TEXTURE_WIDTH = 2048;

/** Items in a texture, two texels each: four floats, two colours. */
export class Items {
  chunks: Chunk[] = [];
  texture: WebGLTexture | null = null;
  count = 0;
  order: Uint32Array = new Uint32Array();

  constructor(private gl: WebGL2RenderingContext) {}

  fill(
    count: number,
    numbers: (i: number) => [number, number, number, number],
    colors: (i: number) => [number, number],
    bounds: (i: number) => [number, number, number, number],
    isOrdered = false,
  ): void {
    const order = isOrdered ? Uint32Array.from({ length: count }, (_, i) => i) : inCells(count, bounds);
    const rows = Math.max(Math.ceil((2 * count) / TEXTURE_WIDTH), 1);
    const words = new Uint32Array(4 * TEXTURE_WIDTH * rows);
    const floats = new Float32Array(words.buffer);
    this.chunks = [];
    this.count = count;
    for (let at = 0; at < count; at++) {
      const i = order[at];
      floats.set(numbers(i), 8 * at);
      const [fill, border] = colors(i);
      words[8 * at + 4] = fill;
      words[8 * at + 5] = border;
      const [x0, y0, x1, y1] = bounds(i);
      if (at % CHUNK === 0) this.chunks.push({ start: at, count: 0, x0, y0, x1, y1, color: fill });
      const chunk = this.chunks[this.chunks.length - 1];
      chunk.count++;
      chunk.x0 = Math.min(chunk.x0, x0);
      chunk.y0 = Math.min(chunk.y0, y0);
      chunk.x1 = Math.max(chunk.x1, x1);
      chunk.y1 = Math.max(chunk.y1, y1);
    }
    const { gl } = this;
    if (this.texture) gl.deleteTexture(this.texture);
    this.texture = twgl.createTexture(gl, {
      width: TEXTURE_WIDTH,
      height: rows,
      internalFormat: gl.RGBA32UI,
      src: words,
      minMag: gl.NEAREST,
      auto: false,
    });
    this.order = order;
  }
}

/** Numbers sorted by square cells in serpentine rows, so that neighbours lie together. */
function inCells(count: number, bounds: (i: number) => [number, number, number, number]): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  if (count <= CHUNK) return order;
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < count; i++) {
    const [a, b, c, d] = bounds(i);
    x0 = Math.min(x0, a);
    y0 = Math.min(y0, b);
    x1 = Math.max(x1, c);
    y1 = Math.max(y1, d);
  }
  const across = Math.ceil(Math.sqrt((count / CHUNK) * ((x1 - x0) / Math.max(y1 - y0, 1)))) || 1;
  const cell = Math.max((x1 - x0) / across, 1);
  const keys = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const [a, b, c, d] = bounds(i);
    const row = Math.floor(((b + d) / 2 - y0) / cell);
    const column = Math.floor(((a + c) / 2 - x0) / cell);
    keys[i] = row * 65536 + (row % 2 ? 65535 - column : column);
  }
  return order.sort((i, j) => keys[i] - keys[j]);
}

/** Chunks that follow each other as one. */
export function runs(chunks: Chunk[]): { start: number; count: number }[] {
  const found: { start: number; count: number }[] = [];
  for (const { start, count } of chunks) {
    const last = found[found.length - 1];
    if (last && last.start + last.count === start) last.count += count;
    else found.push({ start, count });
  }
  return found;
}
