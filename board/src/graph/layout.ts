// Places of boxes: each open container is laid out by itself, inner ones first. Few boxes are laid out by dagre; many in
// rows by their distance from the beginning, in time that grows with their number.
import dagre from "@dagrejs/dagre";

export interface Problem {
  /** Of each box its container (-1: none); containers come before what is in them. */
  parent: Int32Array;
  isContainer: Uint8Array;
  width: Float32Array;
  height: Float32Array;
  /** The order of recording. */
  order: Float64Array;
  from: Int32Array;
  to: Int32Array;
}

export interface Layout {
  /** x, y, width, height of each box that is seen; width 0 of the others. */
  rects: Float32Array;
  /** Arrows between boxes that are seen: from, to, how many. */
  arrows: Int32Array;
}

const BY_DAGRE = 250;
const MARGIN = 16;
const HEAD = 26;
const GAP_X = 18;
const GAP_Y = 34;

export function layOut(problem: Problem, open: Uint8Array): Layout {
  const { parent } = problem;
  const count = parent.length;
  const seen = new Int32Array(count);
  const inside: number[][] = Array.from({ length: count }, () => []);
  for (let id = 1; id < count; id++) {
    const around = parent[id];
    seen[id] = seen[around] === around && open[around] ? id : seen[around];
    if (seen[id] === id) inside[around].push(id);
  }
  const arrows = visibleArrows(problem, seen);
  const within = byContainer(problem, arrows);
  const rects = new Float32Array(4 * count);
  for (let id = count - 1; id >= 0; id--)
    if (seen[id] === id) sizeOf(problem, open, rects, id, inside[id], within.get(id) ?? []);
  for (let id = 1; id < count; id++)
    if (seen[id] === id) {
      rects[4 * id] += rects[4 * parent[id]];
      rects[4 * id + 1] += rects[4 * parent[id] + 1];
    }
  return { rects, arrows };
}

function visibleArrows({ from, to, parent }: Problem, seen: Int32Array): Int32Array {
  const counts = new Map<number, number>();
  const total = parent.length;
  for (let i = 0; i < from.length; i++) {
    const key = seen[from[i]] * total + seen[to[i]];
    if (seen[from[i]] !== seen[to[i]]) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const found = new Int32Array(3 * counts.size);
  let at = 0;
  for (const [key, times] of counts) {
    found[at++] = Math.floor(key / total);
    found[at++] = key % total;
    found[at++] = times;
  }
  return found;
}

/** For each container the arrows between its own boxes: each arrow counts in the innermost one around both ends. */
function byContainer({ parent }: Problem, arrows: Int32Array): Map<number, [number, number][]> {
  const depth = new Int32Array(parent.length);
  for (let id = 1; id < parent.length; id++) depth[id] = depth[parent[id]] + 1;
  const found = new Map<number, [number, number][]>();
  for (let i = 0; i < arrows.length; i += 3) {
    let a = arrows[i];
    let b = arrows[i + 1];
    while (depth[a] > depth[b]) a = parent[a];
    while (depth[b] > depth[a]) b = parent[b];
    while (parent[a] !== parent[b]) {
      a = parent[a];
      b = parent[b];
    }
    if (a === b) continue;
    const list = found.get(parent[a]);
    if (list) list.push([a, b]);
    else found.set(parent[a], [[a, b]]);
  }
  return found;
}

function sizeOf(
  problem: Problem,
  open: Uint8Array,
  rects: Float32Array,
  id: number,
  inside: number[],
  arrows: [number, number][],
): void {
  if (!open[id] || !inside.length) {
    rects[4 * id + 2] = problem.width[id];
    rects[4 * id + 3] = problem.height[id];
    return;
  }
  const [width, height] =
    inside.length <= BY_DAGRE && arrows.length <= 4 * BY_DAGRE
      ? byDagre(rects, inside, arrows)
      : inRows(rects, inside, arrows, problem.order);
  for (const child of inside) {
    rects[4 * child] += MARGIN;
    rects[4 * child + 1] += MARGIN + HEAD;
  }
  rects[4 * id + 2] = Math.max(width + 2 * MARGIN, problem.width[id]);
  rects[4 * id + 3] = height + 2 * MARGIN + HEAD;
}

/** Layouts by sizes and arrows: the calls of one module mostly look the same. */
const known = new Map<string, { places: [number, number][]; size: [number, number] }>();
const MOST_KNOWN = 5000;

function byDagre(rects: Float32Array, inside: number[], arrows: [number, number][]): [number, number] {
  const place = new Map(inside.map((id, index) => [id, index]));
  const sizes = inside.map((id) => `${rects[4 * id + 2]},${rects[4 * id + 3]}`);
  const key = `${sizes.join(" ")} | ${arrows.map(([a, b]) => `${place.get(a)}-${place.get(b)}`).join(" ")}`;
  let found = known.get(key);
  if (!found) {
    const size = dagreLayout(rects, inside, arrows);
    found = { places: inside.map((id) => [rects[4 * id], rects[4 * id + 1]]), size };
    if (known.size === MOST_KNOWN) known.clear();
    known.set(key, found);
  }
  inside.forEach((id, index) => ([rects[4 * id], rects[4 * id + 1]] = found.places[index]));
  return found.size;
}

function dagreLayout(rects: Float32Array, inside: number[], arrows: [number, number][]): [number, number] {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, ranksep: GAP_Y, edgesep: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of inside) graph.setNode(String(id), { width: rects[4 * id + 2], height: rects[4 * id + 3] });
  for (const [a, b] of arrows) graph.setEdge(String(a), String(b));
  dagre.layout(graph);
  let width = 0;
  let height = 0;
  for (const id of inside) {
    const node = graph.node(String(id)) as { x: number; y: number; width: number; height: number };
    rects[4 * id] = node.x - node.width / 2;
    rects[4 * id + 1] = node.y - node.height / 2;
    width = Math.max(width, node.x + node.width / 2);
    height = Math.max(height, node.y + node.height / 2);
  }
  return [width, height];
}

const SWEEPS = 3;

/** Rows by the longest path, in the order of the means of what they read; a row that is too long is folded. */
function inRows(
  rects: Float32Array,
  inside: number[],
  arrows: [number, number][],
  order: Float64Array,
): [number, number] {
  const sorted = [...inside].sort((a, b) => order[a] - order[b]);
  const place = new Map(sorted.map((id, index) => [id, index]));
  const sources: number[][] = sorted.map(() => []);
  const users: number[][] = sorted.map(() => []);
  for (const [a, b] of arrows) {
    const [from, to] = [place.get(a)!, place.get(b)!];
    if (from < to) {
      sources[to].push(from);
      users[from].push(to);
    }
  }
  const row = new Int32Array(sorted.length);
  for (let i = 0; i < sorted.length; i++) for (const source of sources[i]) row[i] = Math.max(row[i], row[source] + 1);
  for (let i = sorted.length - 1; i >= 0; i--)
    if (!sources[i].length && users[i].length) row[i] = users[i].reduce((least, user) => Math.min(least, row[user]), Infinity) - 1;
  const rows: number[][] = [];
  for (let i = 0; i < sorted.length; i++) (rows[row[i] + 1] ??= []).push(i);
  const layers = rows.filter((layer) => layer?.length);
  const position = new Float64Array(sorted.length);
  const number = (layer: number[]) => layer.forEach((i, at) => (position[i] = (at + 0.5) / layer.length));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++)
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const near = sweep % 2 ? users : sources;
      const mean = new Map(
        layer.map((i) => [
          i,
          near[i].length ? near[i].reduce((sum, j) => sum + position[j], 0) / near[i].length : position[i],
        ]),
      );
      layer.sort((a, b) => mean.get(a)! - mean.get(b)!);
      number(layer);
    }
  return placed(rects, sorted, layers);
}

function placed(rects: Float32Array, sorted: number[], layers: number[][]): [number, number] {
  const area = sorted.reduce((sum, id) => sum + (rects[4 * id + 2] + GAP_X) * (rects[4 * id + 3] + GAP_Y), 0);
  const widest = sorted.reduce((most, id) => Math.max(most, rects[4 * id + 2]), 0);
  const limit = Math.max(1.6 * Math.sqrt(area), widest);
  let y = 0;
  let width = 0;
  for (const layer of layers) {
    let x = 0;
    let height = 0;
    for (const i of layer) {
      const at = 4 * sorted[i];
      if (x > 0 && x + rects[at + 2] > limit) {
        y += height + 8;
        x = height = 0;
      }
      rects[at] = x;
      rects[at + 1] = y;
      x += rects[at + 2] + GAP_X;
      width = Math.max(width, x - GAP_X);
      height = Math.max(height, rects[at + 3]);
    }
    y += height + GAP_Y;
  }
  return [width, y - GAP_Y];
}
