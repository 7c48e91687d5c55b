// What is seen of a large graph while it moves, where WebGL is too slow to draw it anew in each frame: a few boxes in
// sight are drawn by themselves; of many, pictures: the last frame that stood still, upon one of the whole graph.
import { themed } from "../dom";
import OverviewWorker from "./overview.worker?worker&inline";
import type { OverviewProblem } from "./overview.worker";
import type { Arrow, Item } from "./scene";

export interface Camera {
  x: number;
  y: number;
  scale: number;
}

const MOST_DRAWN = 800;
const MOST_ARROWS_DRAWN = 300;

export class Motion {
  private worker: Worker | null = typeof OffscreenCanvas === "undefined" ? null : new OverviewWorker();
  private turn = 0;
  private pictures: ImageBitmap[] = [];
  private pictureScale = 1;
  private corner = { x: 0, y: 0 };
  private still = document.createElement("canvas");
  private stillCamera: Camera | null = null;

  constructor() {
    if (!this.worker) return;
    this.worker.onmessage = ({ data }: MessageEvent<{ turn: number; pictures: ImageBitmap[]; scale: number }>) => {
      if (data.turn !== this.turn) return;
      this.pictures = data.pictures;
      this.pictureScale = data.scale;
    };
  }

  close(): void {
    this.worker?.terminate();
  }

  /** Paint the whole of another graph, beside the page. */
  prepare(items: Item[], arrows: Arrow[]): void {
    this.turn++;
    this.pictures = [];
    this.stillCamera = null;
    if (!this.worker || !items.length) return;
    this.corner = { x: items[0].x, y: items[0].y };
    const problem: OverviewProblem = {
      turn: this.turn,
      rects: new Float32Array(4 * items.length),
      fills: new Uint32Array(items.length),
      borders: new Uint32Array(items.length),
      arrows: new Float32Array(4 * arrows.length),
      colors: new Uint32Array(arrows.length),
    };
    items.forEach((item, i) => {
      problem.rects.set([item.x, item.y, item.width, item.height], 4 * i);
      problem.fills[i] = item.fill;
      problem.borders[i] = item.border;
    });
    arrows.forEach((arrow, i) => {
      problem.arrows.set([arrow.x0, arrow.y0, arrow.x1, arrow.y1], 4 * i);
      problem.colors[i] = arrow.color;
    });
    const { rects, fills, borders, colors } = problem;
    this.worker.postMessage(problem, [rects.buffer, fills.buffer, borders.buffer, problem.arrows.buffer, colors.buffer]);
  }

  /** Keep what a canvas shows, as the last frame that stood still. */
  keep(canvas: HTMLCanvasElement, camera: Camera): void {
    if (this.still.width !== canvas.width || this.still.height !== canvas.height)
      [this.still.width, this.still.height] = [canvas.width, canvas.height];
    const context = this.still.getContext("2d")!;
    context.fillStyle = themed("paper");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(canvas, 0, 0);
    this.stillCamera = camera;
  }

  /** Draw a frame in motion; the boxes in sight are given where they are few. */
  draw(context: CanvasRenderingContext2D, camera: Camera, ratio: number, containers: Item[], boxes: Item[] | null, arrows: () => Arrow[]): void {
    if (boxes && boxes.length <= MOST_DRAWN) this.drawEach(context, camera, containers, boxes, arrows());
    else this.drawPictures(context, camera, ratio);
  }

  private drawPictures(context: CanvasRenderingContext2D, camera: Camera, ratio: number): void {
    context.imageSmoothingQuality = "low";
    let level = 0;
    while (level + 1 < this.pictures.length && this.pictureScale / 2 ** (level + 1) >= camera.scale * ratio) level++;
    const whole = this.pictures[level];
    if (whole) {
      const size = (camera.scale / this.pictureScale) * 2 ** level;
      context.drawImage(
        whole,
        (this.corner.x - camera.x) * camera.scale,
        (this.corner.y - camera.y) * camera.scale,
        whole.width * size,
        whole.height * size,
      );
    }
    const { still, stillCamera: past } = this;
    if (!past || (whole && past.scale * ratio < this.pictureScale)) return; // the picture of all of it is sharper
    const times = camera.scale / past.scale;
    context.drawImage(
      still,
      (past.x - camera.x) * camera.scale,
      (past.y - camera.y) * camera.scale,
      (still.width / ratio) * times,
      (still.height / ratio) * times,
    );
  }

  private drawEach(context: CanvasRenderingContext2D, camera: Camera, containers: Item[], boxes: Item[], arrows: Arrow[]): void {
    const { x, y, scale } = camera;
    context.lineWidth = 1.2;
    const box = ({ x: left, y: top, width, height, fill, border }: Item) => {
      context.fillStyle = css(fill);
      context.strokeStyle = css(border);
      context.fillRect((left - x) * scale, (top - y) * scale, width * scale, height * scale);
      context.strokeRect((left - x) * scale, (top - y) * scale, width * scale, height * scale);
    };
    containers.forEach(box);
    const stride = Math.ceil(arrows.length / MOST_ARROWS_DRAWN);
    context.lineWidth = 1;
    for (const color of new Set(arrows.map((arrow) => arrow.color))) {
      context.strokeStyle = css(color);
      context.beginPath();
      for (let i = 0; i < arrows.length; i += stride) {
        const arrow = arrows[i];
        if (arrow.color !== color) continue;
        const [ax, ay, bx, by] = [(arrow.x0 - x) * scale, (arrow.y0 - y) * scale, (arrow.x1 - x) * scale, (arrow.y1 - y) * scale];
        const bend = Math.max(Math.abs(by - ay) * 0.5, Math.min(24 * scale, 24));
        context.moveTo(ax, ay);
        context.bezierCurveTo(ax, ay + bend, bx, by - bend, bx, by);
      }
      context.stroke();
    }
    boxes.forEach(box);
  }
}

const known = new Map<number, string>();

function css(color: number): string {
  let found = known.get(color);
  if (!found) {
    found = `rgba(${color & 255},${(color >> 8) & 255},${(color >> 16) & 255},${(color >>> 24) / 255})`;
    known.set(color, found);
  }
  return found;
}
