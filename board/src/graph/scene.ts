// Draws boxes and arrows with WebGL, and their words on a canvas above. What is drawn lies in chunks of neighbours, so
// that a frame draws what is in sight, and of very many arrows a part. Where a frame takes WebGL long, as it does software
// without a GPU, what moves is drawn from pictures (`motion`), and anew when it stands still.
import * as twgl from "twgl.js";
import { themed } from "../dom";
import { ARROW_PIXEL, ARROW_VERTEX, BOX_PIXEL, BOX_VERTEX, Items, runs, type Chunk } from "./items";
import { Motion, type Camera } from "./motion";

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

const MOST_ARROWS = 30_000;
const MOST_WORDS = 700;
const MOST_WORDS_IN_MOTION = 60;
const MOST_SEEN = 801; // boxes in sight that are looked for: of more, pictures are shown
const SEGMENTS = 14;
const FRAME_MS = 20;
const STILL_MS = 250;
const STILL_FRAME_MS = 250;
const LEAST_DETAIL = 1 / 16;
const LONGEST_STILL_MS = 20_000;
const FEW_ITEMS = 4000;
const MOST_BOXES = 200_000;
const SMALLEST_WORDS = 7;
const SMALLEST_CONTAINER = 6;
const GAP = 64; // boxes out of sight that are drawn with others rather than a draw for each side

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
  private detail = 1;
  private isSlow = false;
  private motion = new Motion();
  private wide = 1; // of the canvas, when a frame begins: asking for it takes long
  private high = 1;
  private chosen: Item | null = null;
  private widths = new Map<string, number>();
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
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: true });
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
    if (this.isLarge()) this.motion.prepare([...this.inOpen, ...this.inLeaf], arrows);
    const root = items[0];
    if (root) this.extent = { x: root.x, y: root.y, width: root.width, height: root.height };
    this.mark(this.selected);
  }

  /** Show which box is selected, and its arrows. */
  mark(id: number): void {
    this.selected = id;
    this.chosen = this.items.find((item) => item.id === id) ?? null;
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
    this.motion.close();
    clearTimeout(this.later);
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private isLarge(): boolean {
    return this.leaves.count + this.arrows.count > FEW_ITEMS;
  }

  draw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      clearTimeout(this.later);
      const isMoving = this.isLarge() && this.isSlow;
      if (isMoving) this.drawInMotion();
      else this.drawNow();
      if (isMoving) this.later = window.setTimeout(() => this.drawStill(), STILL_MS);
      this.frames++;
      this.drawn();
    });
  }

  private get camera(): Camera {
    return { x: this.x, y: this.y, scale: this.scale };
  }

  /** A frame by WebGL, at once; of a large graph how long it takes is measured. */
  private drawNow(): void {
    const began = performance.now();
    if (!this.resize()) return;
    this.drawItemsInSight(this.detail);
    this.drawWords(MOST_WORDS);
    this.canvas.style.visibility = "visible";
    if (!this.isLarge()) return;
    this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, this.pixel); // waits until all is drawn
    this.adapt(performance.now() - began);
    if (this.isSlow) this.motion.keep(this.canvas, this.camera);
  }

  private drawInMotion(): void {
    const ratio = this.resize();
    if (!ratio) return;
    this.canvas.style.visibility = "hidden";
    this.clearWords(ratio);
    const boxes = this.boxesInSight();
    this.motion.draw(this.words, this.camera, ratio, this.containersInSight(), boxes, () => this.arrowsInSight());
    this.drawWords(MOST_WORDS_IN_MOTION, false);
  }

  /** The frame by WebGL, once nothing moves: it is shown when it is done, and kept as a picture. */
  private drawStill(): void {
    const began = performance.now();
    const { gl, camera } = this;
    if (!this.resize()) return;
    this.drawItemsInSight(this.detail);
    const done = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    const look = () => {
      const milliseconds = performance.now() - began;
      const isDone = !done || gl.getSyncParameter(done, gl.SYNC_STATUS) === gl.SIGNALED;
      if (this.waiting || this.x !== camera.x || this.y !== camera.y || this.scale !== camera.scale) return;
      if (!isDone && milliseconds < LONGEST_STILL_MS) {
        this.later = window.setTimeout(look, 4);
        return;
      }
      gl.deleteSync(done);
      this.adapt(milliseconds);
      this.canvas.style.visibility = "visible";
      this.drawWords(MOST_WORDS);
      this.motion.keep(this.canvas, camera);
    };
    this.later = window.setTimeout(look, 4);
  }

  /** Fewer arrows and boxes where a frame takes too long even for one that stands still. */
  private adapt(milliseconds: number): void {
    this.isSlow = milliseconds > FRAME_MS;
    if (milliseconds > STILL_FRAME_MS) this.detail = Math.max(this.detail / 2, LEAST_DETAIL);
    else if (milliseconds < STILL_FRAME_MS / 4) this.detail = Math.min(2 * this.detail, 1);
  }

  /** Give the canvases the size of their element; the pixels of the screen for one of the page, 0 where there are none. */
  private resize(): number {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(this.canvas.clientWidth * ratio), Math.round(this.canvas.clientHeight * ratio)];
    if (!width || !height) return 0;
    [this.wide, this.high] = [this.canvas.clientWidth, this.canvas.clientHeight];
    for (const one of [this.canvas, this.above])
      if (one.width !== width || one.height !== height) [one.width, one.height] = [width, height];
    return ratio;
  }

  private drawItemsInSight(detail: number): void {
    const { gl, canvas } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const uniforms = { camera: [this.x, this.y, this.scale * ratio], size: [canvas.width, canvas.height], ratio };
    this.drawContainers(uniforms);
    this.drawArrows(this.arrows, uniforms, detail);
    this.drawBoxes(this.leaves, uniforms, detail);
    this.drawArrows(this.marks, uniforms, detail);
  }

  /** The boxes in sight; null where they are many. */
  private boxesInSight(): Item[] | null {
    const found: Item[] = [];
    for (const chunk of this.leaves.chunks) {
      if (!this.inSight(chunk)) continue;
      for (let at = chunk.start; at < chunk.start + chunk.count; at++) {
        const item = this.inLeaf[this.leaves.order[at]];
        if (this.sees(item)) found.push(item);
      }
      if (found.length > MOST_SEEN) return null;
    }
    return found;
  }

  private containersInSight(): Item[] {
    return this.inOpen.slice(0, this.openAbove(SMALLEST_CONTAINER)).filter((item) => this.sees(item));
  }

  private arrowsInSight(): Arrow[] {
    const right = this.x + this.wide / this.scale;
    const bottom = this.y + this.high / this.scale;
    const found: Arrow[] = [];
    for (const chunk of this.arrows.chunks) {
      if (!this.inSight(chunk)) continue;
      for (let at = chunk.start; at < chunk.start + chunk.count; at++) {
        const arrow = this.arrowList[this.arrows.order[at]];
        const { x0, y0, x1, y1 } = arrow;
        if (Math.max(x0, x1) >= this.x && Math.min(x0, x1) <= right && Math.max(y0, y1) >= this.y && Math.min(y0, y1) <= bottom) found.push(arrow);
      }
    }
    return found;
  }

  private inSight(chunk: Chunk): boolean {
    const right = this.x + this.wide / this.scale;
    const bottom = this.y + this.high / this.scale;
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
    const right = this.x + this.wide / this.scale;
    const bottom = this.y + this.high / this.scale;
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

  private clearWords(ratio: number): void {
    this.words.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.words.clearRect(0, 0, this.wide, this.high);
  }

  private drawWords(most: number, isAlone = true): void {
    const { words, scale } = this;
    if (isAlone) this.clearWords(Math.min(window.devicePixelRatio || 1, 2));
    words.textBaseline = "middle";
    const ink = themed("ink");
    for (const item of this.inOpen.slice(0, this.openAbove(24))) this.head(item, ink);
    if (scale * 13 >= SMALLEST_WORDS) this.wordsInBoxes(most, ink, themed("faint"));
    this.onlySelected();
  }

  /** First all titles, then all that stands below them: setting a font takes longer than writing a word. */
  private wordsInBoxes(most: number, ink: string, faint: string): void {
    const { words, scale } = this;
    const found: Item[] = [];
    for (const chunk of this.leaves.chunks) {
      if (!this.inSight(chunk)) continue;
      for (let at = chunk.start; at < chunk.start + chunk.count && found.length < most; at++) {
        const item = this.inLeaf[this.leaves.order[at]];
        if (this.sees(item)) found.push(item);
      }
    }
    words.textAlign = "center";
    words.font = `${13 * scale}px system-ui, sans-serif`;
    words.fillStyle = ink;
    for (const item of found) this.centred(item.title, item, item.under ? 0.33 : 0.5, 13);
    words.font = `${11 * scale}px ui-monospace, monospace`;
    words.fillStyle = faint;
    for (const item of found) if (item.under) this.centred(item.under, item, 0.7, 11);
    words.textAlign = "left";
  }

  private centred(text: string, item: Item, at: number, size: number): void {
    const [x, y, width, height] = this.rect(item);
    this.text(text, x + width / 2, y + height * at, width - 8 * this.scale, size * this.scale);
  }

  private rect(item: Item): [number, number, number, number] {
    const { scale } = this;
    return [(item.x - this.x) * scale, (item.y - this.y) * scale, item.width * scale, item.height * scale];
  }

  private head(item: Item, ink: string): void {
    const [x, y, width, height] = this.rect(item);
    const size = Math.min(13, Math.max(13 * this.scale, Math.min(11, height / 4)));
    const { wide, high } = this;
    if (size < SMALLEST_WORDS || width < 30 || x > wide || x + width < 0 || y > high || y + height < 0) return;
    this.words.font = `600 ${size}px system-ui, sans-serif`;
    this.words.fillStyle = ink;
    this.text(item.title, x + 8, y + 4 + size * 0.75, width - 16, size);
  }

  private text(text: string, x: number, y: number, width: number, size: number): void {
    if (width < 12) return;
    const whole = this.widthOf(text, size);
    const shown = whole > width ? `${text.slice(0, Math.max(1, Math.floor((width * text.length) / whole) - 1))}…` : text;
    this.words.fillText(shown, x, y);
  }

  /** The width of a text in the font that is set, measured once. */
  private widthOf(text: string, size: number): number {
    const key = `${this.words.font.slice(0, 3) === "600" ? "b" : this.words.font.includes("mono") ? "m" : ""}${text}`;
    let width = this.widths.get(key);
    if (width === undefined) this.widths.set(key, (width = this.words.measureText(text).width / size));
    return width * size;
  }

  private onlySelected(): void {
    if (!this.chosen) return;
    const [x, y, width, height] = this.rect(this.chosen);
    this.words.strokeStyle = themed("accent");
    this.words.lineWidth = 2.5;
    this.words.strokeRect(x - 2, y - 2, Math.max(width, 3) + 4, Math.max(height, 3) + 4);
  }
}

/** `#rrggbb` or `#rrggbbaa` as bytes in memory order. */
export function packed(color: string): number {
  const hex = color.replace("#", "").padEnd(8, "f");
  const [r, g, b, a] = [0, 2, 4, 6].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
