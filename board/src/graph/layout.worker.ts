// Lays graphs out beside the page. A problem comes once, then sets of open boxes.
import { layOut, type Problem } from "./layout";

let problem: Problem | null = null;

self.onmessage = ({ data }: MessageEvent<{ problem?: Problem; open: Uint8Array; turn: number }>) => {
  if (data.problem) problem = data.problem;
  if (!problem) return;
  const { rects, arrows } = layOut(problem, data.open);
  self.postMessage({ rects, arrows, turn: data.turn }, { transfer: [rects.buffer, arrows.buffer] });
};
