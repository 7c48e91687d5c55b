// Paints a whole graph once, beside the page, as pictures of several sizes: what is shown while a large graph moves.
export interface OverviewProblem {
  turn: number;
  /** x, y, width, height of each box, containers before what is in them. */
  rects: Float32Array;
  fills: Uint32Array;
  borders: Uint32Array;
  /** x0, y0, x1, y1 of each arrow, and its colour. */
  arrows: Float32Array;
  colors: Uint32Array;
}

const LARGEST_SIDE = 4096;
const LEVELS = 3;
const ARROWS_AT_ONCE = 4096;

const css = (color: number) => `rgba(${color & 255},${(color >> 8) & 255},${(color >> 16) & 255},${(color >>> 24) / 255})`;

self.onmessage = ({ data }: MessageEvent<OverviewProblem>) => {
  const [x, y, width, height] = data.rects;
  const scale = Math.min(LARGEST_SIDE / Math.max(width, height), 1);
  const canvas = new OffscreenCanvas(Math.max(Math.ceil(width * scale), 1), Math.max(Math.ceil(height * scale), 1));
  const context = canvas.getContext("2d")!;
  context.setTransform(scale, 0, 0, scale, -x * scale, -y * scale);
  paint(context, data, scale);
  const pictures: ImageBitmap[] = [];
  for (let level = 1; level < LEVELS; level++) pictures.push(smaller(canvas, 2 ** level));
  pictures.unshift(canvas.transferToImageBitmap());
  self.postMessage({ turn: data.turn, pictures, scale }, { transfer: pictures });
};

function paint(context: OffscreenCanvasRenderingContext2D, data: OverviewProblem, scale: number): void {
  const { rects, fills, borders, arrows, colors } = data;
  const isBox = (i: number) => rects[4 * i + 3] <= 60;
  const fill = (i: number) => {
    context.fillStyle = css(borders[i]);
    context.fillRect(rects[4 * i], rects[4 * i + 1], rects[4 * i + 2], rects[4 * i + 3]);
    const line = Math.min(1.2 / scale, rects[4 * i + 3] / 8);
    context.fillStyle = css(fills[i]);
    context.fillRect(rects[4 * i] + line, rects[4 * i + 1] + line, rects[4 * i + 2] - 2 * line, rects[4 * i + 3] - 2 * line);
  };
  for (let i = 0; i < fills.length; i++) if (!isBox(i)) fill(i);
  context.lineWidth = 0.8 / scale;
  for (let begin = 0; begin < colors.length; begin += ARROWS_AT_ONCE) {
    const end = Math.min(begin + ARROWS_AT_ONCE, colors.length);
    for (const color of new Set(colors.subarray(begin, end))) {
      context.strokeStyle = css(color);
      context.beginPath();
      for (let i = begin; i < end; i++) {
        if (colors[i] !== color) continue;
        context.moveTo(arrows[4 * i], arrows[4 * i + 1]);
        context.lineTo(arrows[4 * i + 2], arrows[4 * i + 3]);
      }
      context.stroke();
    }
  }
  for (let i = 0; i < fills.length; i++) if (isBox(i)) fill(i);
}

function smaller(canvas: OffscreenCanvas, times: number): ImageBitmap {
  const half = new OffscreenCanvas(Math.max(canvas.width / times, 1), Math.max(canvas.height / times, 1));
  const context = half.getContext("2d")!;
  context.imageSmoothingQuality = "high";
  context.drawImage(canvas, 0, 0, half.width, half.height);
  return half.transferToImageBitmap();
}
