// Draws boxes and arrows with WebGL, and their words on a canvas above. What is drawn lies in chunks of neighbours, so
// that a frame draws what is in sight; where boxes are smaller than a pixel, a chunk is one box, and of many arrows only
// a part is drawn.
import * as twgl from "twgl.js";
import { themed } from "../dom";

export interface Item {
  x: number;
  y: number;
  width: number;
  height: number;
  fill: number;
  border: number;
  /** Of a container: above its boxes, with its words in its head. */
  isOpen: boolean;
  title: string;
  under: string;
  id: number;
}

export interface Arrow {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  color: number;
  from: number;
  to: number;
}

const CHUNK = 1024;
const MOST_ARROWS = 30_000;
const MOST_WORDS = 700;
const SEGMENTS = 14;
const FRAME_MS = 20;
const STILL_MS = 250;
const STILL_FRAME_MS = 250;
const LEAST_DETAIL = 1 / 64;
const FEW_ITEMS = 4000;
const MOST_BOXES = 200_000;
const SMALLEST_WORDS = 7;
const SMALLEST_CONTAINER = 6;
const GAP = 64; // boxes out of sight that are drawn with others rather than a draw for each side

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
const BOX_VERTEX = `${FETCH}
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
const BOX_PIXEL = `#version 300 es
precision mediump float;
in vec2 place; in vec2 extent; in vec4 inner; in vec4 edge;
uniform float ratio;
out vec4 color;
void main() {
  float radius = min(5.0 * ratio, min(extent.x, extent.y) * 0.25);
  vec2 q = abs(place - extent * 0.5) - extent * 0.5 + radius;
  float away = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - radius;
  float line = min(1.2 * ratio, min(extent.x, extent.y) * 0.25);
  vec4 both = mix(edge, inner, smoothstep(0.0, 1.0, -away - line));
  float cover = extent.x < 4.0 ? 1.0 : clamp(0.5 - away, 0.0, 1.0);
  color = vec4(both.rgb * both.a, both.a) * cover;
}`;
const ARROW_VERTEX = `${FETCH}
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
const ARROW_PIXEL = `#version 300 es
precision mediump float;
in vec4 tint;
out vec4 color;
void main() { color = vec4(tint.rgb * tint.a, tint.a); }`;

interface Chunk {
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
class Items {
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

export class Scene {
  x = 0;
  y = 0;
  scale = 1;
  selected = -1;
  items: Item[] = [];
  frames = 0;
  drawn: () => void = () => {};
  private arrowList: Arrow[] = [];
  private gl: WebGL2RenderingContext;
  private words: CanvasRenderingContext2D;
  private boxes: twgl.ProgramInfo;
  private lines: twgl.ProgramInfo;
  private containers: Items;
  private leaves: Items;
  private arrows: Items;
  private marks: Items;
  private detail = 0.1;
  private stillDetail = 1;
  private pixel = new Uint8Array(4);
  private later = 0;
  private waiting = false;
  private extent = { x: 0, y: 0, width: 1, height: 1 };
  private inOpen: Item[] = [];
  private inLeaf: Item[] = [];

  constructor(
    private canvas: HTMLCanvasElement,
    private above: HTMLCanvasElement,
  ) {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true });
    if (!gl) throw new Error("This browser shows no WebGL 2, which the graph is drawn with: allow it, or use another one.");
    this.gl = gl;
    this.words = above.getContext("2d")!;
    this.boxes = twgl.createProgramInfo(gl, [BOX_VERTEX, BOX_PIXEL]);
    this.lines = twgl.createProgramInfo(gl, [ARROW_VERTEX, ARROW_PIXEL]);
    this.containers = new Items(gl);
    this.leaves = new Items(gl);
    this.arrows = new Items(gl);
    this.marks = new Items(gl);
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  }

  show(items: Item[], arrows: Arrow[]): void {
    this.items = items;
    this.arrowList = arrows;
    // An outer one is higher than what is in it: this is the order of drawing, and the small ones at the end are left out.
    this.inOpen = items.filter((item) => item.isOpen).sort((a, b) => b.height - a.height);
    this.inLeaf = items.filter((item) => !item.isOpen);
    for (const [items, list] of [[this.containers, this.inOpen], [this.leaves, this.inLeaf]] as const) {
      items.fill(
        list.length,
        (i) => [list[i].x, list[i].y, list[i].width, list[i].height],
        (i) => [list[i].fill, list[i].border],
        (i) => [list[i].x, list[i].y, list[i].x + list[i].width, list[i].y + list[i].height],
        items === this.containers,
      );
    }
    this.arrows.fill(
      arrows.length,
      (i) => [arrows[i].x0, arrows[i].y0, arrows[i].x1, arrows[i].y1],
      (i) => [arrows[i].color, 0],
      (i) => {
        const { x0, y0, x1, y1 } = arrows[i];
        return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
      },
    );
    const root = items[0];
    if (root) this.extent = { x: root.x, y: root.y, width: root.width, height: root.height };
    this.mark(this.selected);
  }

  /** Show which box is selected, and its arrows. */
  mark(id: number): void {
    this.selected = id;
    const near = id < 0 ? [] : this.arrowList.filter((arrow) => arrow.from === id || arrow.to === id).slice(0, 4000);
    const [into, out] = [packed(themed("into")), packed(themed("out"))];
    this.marks.fill(
      near.length,
      (i) => [near[i].x0, near[i].y0, near[i].x1, near[i].y1],
      (i) => [near[i].to === id ? into : out, 0],
      (i) => [near[i].x0, near[i].y0, near[i].x1, near[i].y1],
    );
    this.draw();
  }

  fit(): void {
    this.zoomTo(this.extent);
  }

  zoomTo(rect: { x: number; y: number; width: number; height: number }, most = 1.1): void {
    const width = this.canvas.clientWidth || 1;
    const height = this.canvas.clientHeight || 1;
    this.scale = Math.min((width - 24) / rect.width, (height - 24) / rect.height, most);
    this.x = rect.x + rect.width / 2 - width / 2 / this.scale;
    this.y = rect.y + rect.height / 2 - height / 2 / this.scale;
    this.draw();
  }

  pan(dx: number, dy: number): void {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.draw();
  }

  zoom(factor: number, px: number, py: number): void {
    const scale = Math.min(Math.max(this.scale * factor, 1e-4), 8);
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.draw();
  }

  /** The innermost box at a pixel. */
  at(px: number, py: number): Item | null {
    const x = this.x + px / this.scale;
    const y = this.y + py / this.scale;
    const holds = (item: Item) =>
      x >= item.x && y >= item.y && x <= item.x + item.width && y <= item.y + item.height;
    for (const chunk of this.leaves.chunks)
      if (x >= chunk.x0 && y >= chunk.y0 && x <= chunk.x1 && y <= chunk.y1)
        for (let at = chunk.start; at < chunk.start + chunk.count; at++) {
          const item = this.inLeaf[this.leaves.order[at]];
          if (holds(item)) return item;
        }
    let found: Item | null = null;
    for (const item of this.inOpen) if (holds(item) && (!found || item.height < found.height)) found = item;
    return found;
  }

  /** Give the browser's drawing context back: it has few. */
  release(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  draw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      clearTimeout(this.later);
      const isMany = this.leaves.count + this.arrows.count > FEW_ITEMS;
      this.render(isMany ? this.detail : 1);
      if (!isMany) return;
      this.later = window.setTimeout(() => this.render(this.stillDetail, true), STILL_MS);
    });
  }

  /** While something moves, as much is drawn as leaves 30 frames a second; a little later, much more. */
  private adapt(milliseconds: number, isStill: boolean): void {
    const factor = Math.min(Math.max(FRAME_MS / Math.max(milliseconds, 0.1), 0.2), 1.25);
    if (!isStill) this.detail = Math.min(Math.max(this.detail * factor, LEAST_DETAIL), 1);
    else this.detail = Math.min(this.detail, Math.max(FRAME_MS / milliseconds, LEAST_DETAIL) * this.stillDetail);
    if (isStill && milliseconds > STILL_FRAME_MS) this.stillDetail = Math.max(this.stillDetail / 2, this.detail);
  }

  private render(detail: number, isStill = false): void {
    const began = performance.now();
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { gl, canvas, above } = this;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!width || !height) return;
    for (const one of [canvas, above])
      if (one.width !== width || one.height !== height) [one.width, one.height] = [width, height];
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const camera = [this.x, this.y, this.scale * ratio];
    const uniforms = { camera, size: [width, height], ratio };
    this.drawContainers(uniforms);
    this.drawArrows(this.arrows, uniforms, detail);
    this.drawBoxes(this.leaves, uniforms, detail);
    this.drawArrows(this.marks, uniforms, detail);
    this.drawWords(ratio);
    if (this.leaves.count + this.arrows.count > FEW_ITEMS) {
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, this.pixel); // waits until all is drawn
      this.adapt(performance.now() - began, isStill);
    }
    this.frames++;
    this.drawn();
  }

  private inSight(chunk: Chunk): boolean {
    const right = this.x + this.canvas.clientWidth / this.scale;
    const bottom = this.y + this.canvas.clientHeight / this.scale;
    return chunk.x1 >= this.x && chunk.y1 >= this.y && chunk.x0 <= right && chunk.y0 <= bottom;
  }

  private drawContainers(uniforms: Record<string, unknown>): void {
    const count = this.openAbove(SMALLEST_CONTAINER);
    const found: { start: number; count: number }[] = [];
    for (let i = 0; i < count; i++) {
      if (!this.sees(this.inOpen[i])) continue;
      const last = found[found.length - 1];
      if (last && i - last.start - last.count < GAP) last.count = i + 1 - last.start;
      else found.push({ start: i, count: 1 });
    }
    this.drawItems(this.boxes, this.containers, found, 6, 1, uniforms);
  }

  private sees(item: Item): boolean {
    const right = this.x + this.canvas.clientWidth / this.scale;
    const bottom = this.y + this.canvas.clientHeight / this.scale;
    return item.x + item.width >= this.x && item.y + item.height >= this.y && item.x <= right && item.y <= bottom;
  }

  /** How many open containers are higher than so many pixels: the first ones. */
  private openAbove(pixels: number): number {
    let [low, high] = [0, this.inOpen.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.inOpen[middle].height * this.scale > pixels) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Of very many boxes every so-manyth, larger: neighbours in space follow each other. */
  private drawBoxes(items: Items, uniforms: Record<string, unknown>, detail: number): void {
    const chunks = runs(items.chunks.filter((chunk) => this.inSight(chunk)));
    const total = chunks.reduce((sum, chunk) => sum + chunk.count, 0);
    this.drawItems(this.boxes, items, chunks, 6, Math.ceil(total / Math.max(MOST_BOXES * detail, 1000)), uniforms);
  }

  private drawArrows(items: Items, uniforms: Record<string, unknown>, detail: number): void {
    const chunks = runs(items.chunks.filter((chunk) => this.inSight(chunk)));
    const total = chunks.reduce((sum, chunk) => sum + chunk.count, 0);
    const isCurved = total < 4000 && this.scale > 0.05;
    const stride = Math.ceil(total / Math.max(MOST_ARROWS * detail, 200));
    this.drawItems(this.lines, items, chunks, 6 * (isCurved ? SEGMENTS : 2), stride, uniforms);
  }

  private drawItems(
    program: twgl.ProgramInfo,
    items: Items,
    chunks: { start: number; count: number }[],
    perItem: number,
    stride: number,
    uniforms: Record<string, unknown>,
  ): void {
    const { gl } = this;
    if (!chunks.length) return;
    gl.useProgram(program.program);
    twgl.setUniforms(program, { ...uniforms, data: items.texture, perItem, stride });
    for (const { start, count } of chunks) {
      const first = Math.ceil(start / stride);
      const end = Math.ceil((start + count) / stride);
      if (end > first) gl.drawArrays(gl.TRIANGLES, first * perItem, (end - first) * perItem);
    }
  }

  private drawWords(ratio: number): void {
    const { words, scale } = this;
    words.setTransform(ratio, 0, 0, ratio, 0, 0);
    words.clearRect(0, 0, this.above.clientWidth, this.above.clientHeight);
    words.textBaseline = "middle";
    const ink = themed("ink");
    const faint = themed("faint");
    for (const item of this.inOpen.slice(0, this.openAbove(24))) this.head(item, ink);
    if (scale * 13 < SMALLEST_WORDS) this.onlySelected();
    else {
      let left = MOST_WORDS;
      for (const chunk of this.leaves.chunks) {
        if (!this.inSight(chunk)) continue;
        for (let at = chunk.start; at < chunk.start + chunk.count && left > 0; at++)
          if (this.wordsOf(this.inLeaf[this.leaves.order[at]], ink, faint)) left--;
      }
      this.onlySelected();
    }
  }

  private rect(item: Item): [number, number, number, number] {
    const { scale } = this;
    return [(item.x - this.x) * scale, (item.y - this.y) * scale, item.width * scale, item.height * scale];
  }

  private head(item: Item, ink: string): void {
    const [x, y, width, height] = this.rect(item);
    const size = Math.min(13, Math.max(13 * this.scale, Math.min(11, height / 4)));
    const [wide, high] = [this.above.clientWidth, this.above.clientHeight];
    if (size < SMALLEST_WORDS || width < 30 || x > wide || x + width < 0 || y > high || y + height < 0) return;
    this.words.font = `600 ${size}px system-ui, sans-serif`;
    this.words.fillStyle = ink;
    this.text(item.title, x + 8, y + 4 + size * 0.75, width - 16);
  }

  private wordsOf(item: Item, ink: string, faint: string): boolean {
    const [x, y, width, height] = this.rect(item);
    if (x > this.above.clientWidth || y > this.above.clientHeight || x + width < 0 || y + height < 0) return false;
    const { words, scale } = this;
    const isTwo = item.under !== "";
    words.font = `${13 * scale}px system-ui, sans-serif`;
    words.fillStyle = ink;
    words.textAlign = "center";
    this.text(item.title, x + width / 2, y + height * (isTwo ? 0.33 : 0.5), width - 8 * scale);
    if (isTwo) {
      words.font = `${11 * scale}px ui-monospace, monospace`;
      words.fillStyle = faint;
      this.text(item.under, x + width / 2, y + height * 0.7, width - 8 * scale);
    }
    words.textAlign = "left";
    return true;
  }

  private text(text: string, x: number, y: number, width: number): void {
    const { words } = this;
    if (width < 12) return;
    let shown = text;
    if (words.measureText(text).width > width) {
      const letter = words.measureText(text).width / text.length;
      shown = `${text.slice(0, Math.max(1, Math.floor(width / letter) - 1))}…`;
    }
    words.fillText(shown, x, y);
  }

  private onlySelected(): void {
    const item = this.items.find(({ id }) => id === this.selected);
    if (!item) return;
    const [x, y, width, height] = this.rect(item);
    this.words.strokeStyle = themed("accent");
    this.words.lineWidth = 2.5;
    this.words.strokeRect(x - 2, y - 2, Math.max(width, 3) + 4, Math.max(height, 3) + 4);
  }
}

/** Chunks that follow each other as one. */
function runs(chunks: Chunk[]): { start: number; count: number }[] {
  const found: { start: number; count: number }[] = [];
  for (const { start, count } of chunks) {
    const last = found[found.length - 1];
    if (last && last.start + last.count === start) last.count += count;
    else found.push({ start, count });
  }
  return found;
}

/** `#rrggbb` or `#rrggbbaa` as bytes in memory order. */
export function packed(color: string): number {
  const hex = color.replace("#", "").padEnd(8, "f");
  const [r, g, b, a] = [0, 2, 4, 6].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
