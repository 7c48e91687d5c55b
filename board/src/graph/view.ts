// The view of one graph: its boxes on a canvas, opened and closed by clicks, and what is known of the chosen one.
import { bytes, count, el, figure, grouped, list, themed, type Figure } from "../dom";
import type { GraphDocument, Sources } from "../data";
import { lineOf } from "./compare";
import { build, opened, type Box, type Hierarchy, type Mode } from "./hierarchy";
import type { Layout, Problem } from "./layout";
import LayoutWorker from "./layout.worker?worker&inline";
import { snippet } from "../source";
import { packed, Scene, type Arrow, type Item } from "./scene";

export type Shade = "kind" | "value" | "gradient" | "size" | "changes";

const MOST_FOUND = 200;
const MOST_NEIGHBOURS = 12;
const MOST_OPENED = 400_000;
const LETTER = 7.2;

export class GraphView {
  readonly element: HTMLElement;
  readonly panel = el("aside", { class: "panel", "aria-label": "details" });
  scene: Scene;
  hierarchy!: Hierarchy;
  graph!: GraphDocument;
  /** 1 at nodes that the other step has not. */
  changed: Uint8Array | null = null;
  private open: Uint8Array = new Uint8Array();
  private layout: Layout | null = null;
  private worker = new LayoutWorker();
  private turn = 0;
  private after: (() => void) | null = null;
  private shade: Shade = "kind";
  private values = new Map<number, number>();
  private status = el("p", { class: "status", role: "status" });
  private sources: Sources = { files: [] };

  constructor(private selected: (view: GraphView) => void = () => {}) {
    const canvas = el("canvas", { class: "boxes" });
    const above = el("canvas", { class: "words", tabindex: 0, "aria-label": "the graph; arrow keys move it, + and - zoom" });
    this.element = el("div", { class: "graph" }, canvas, above, this.status);
    this.scene = new Scene(canvas, above);
    this.worker.onmessage = ({ data }: MessageEvent<Layout & { turn: number }>) => {
      if (data.turn === this.turn) this.arrive(data);
    };
    this.worker.onerror = (event) => {
      this.status.textContent = `the graph cannot be laid out: ${event.message || "the browser does not let a worker run"}`;
    };
    this.listen(above);
  }

  close(): void {
    this.worker.terminate();
    this.scene.release();
  }

  show(graph: GraphDocument, mode: Mode, sources: Sources): void {
    this.graph = graph;
    this.sources = sources;
    this.hierarchy = build(graph, mode);
    this.open = opened(this.hierarchy.boxes);
    this.values = new Map((graph.values.node ?? []).map((node, row) => [node as number, row]));
    this.scene.selected = -1;
    this.lay(() => this.scene.fit(), this.problem());
    this.describe(0);
  }

  private problem(): Problem {
    const { boxes, from, to } = this.hierarchy;
    const isContainer = Uint8Array.from(boxes, (box) => (box.children.length ? 1 : 0));
    const width = Float32Array.from(boxes, (box) => {
      const letters = Math.max(this.titleOf(box).length, 0.85 * this.underOf(box).length);
      return Math.min(Math.max(LETTER * letters + 22, 60), 260);
    });
    const height = Float32Array.from(boxes, () => 42);
    const order = Float64Array.from(boxes, (box) => box.nodes[0] ?? 0);
    for (let id = boxes.length - 1; id > 0; id--) {
      const { parent } = boxes[id];
      if (boxes[id].size) order[parent] = order[parent] ? Math.min(order[parent], order[id]) : order[id];
    }
    return { parent: Int32Array.from(boxes, (box) => box.parent), isContainer, width, height, order, from, to };
  }

  private lay(after: () => void, problem?: Problem): void {
    this.after = after;
    this.turn++;
    this.status.textContent = "laying out…";
    this.worker.postMessage({ problem, open: this.open, turn: this.turn });
  }

  private arrive(layout: Layout): void {
    this.layout = layout;
    this.paint();
    this.after?.();
    this.after = null;
    const seen = this.scene.items.length;
    const { records, counted } = this.graph;
    this.status.textContent = counted
      ? `${count(records, "record")}: too many to show apart; equal ones of a line are counted`
      : `${count(records, "record")}, ${count(seen, "box")} shown`;
    this.element.dataset.ready = String(this.turn);
  }

  shadeBy(shade: Shade): void {
    this.shade = shade;
    if (this.layout) this.paint();
  }

  /** Give the boxes their places and colours. */
  paint(): void {
    const { rects, arrows } = this.layout!;
    const { boxes } = this.hierarchy;
    const colors = this.colors();
    const items: Item[] = [];
    for (let id = 0; id < boxes.length; id++) {
      if (!rects[4 * id + 2]) continue;
      const isOpen = boxes[id].children.length > 0 && this.open[id] === 1;
      const [fill, border] = colors(id, isOpen);
      items.push({
        id, isOpen, fill, border,
        x: rects[4 * id], y: rects[4 * id + 1], width: rects[4 * id + 2], height: rects[4 * id + 3],
        title: this.titleOf(boxes[id]), under: isOpen ? "" : this.underOf(boxes[id]),
      });
    }
    const [usual, back] = [packed(themed("arrow")), packed(themed("back"))];
    const lines: Arrow[] = [];
    for (let i = 0; i < arrows.length; i += 3) {
      const [a, b] = [4 * arrows[i], 4 * arrows[i + 1]];
      lines.push({
        x0: rects[a] + rects[a + 2] / 2, y0: rects[a + 1] + rects[a + 3],
        x1: rects[b] + rects[b + 2] / 2, y1: rects[b + 1],
        color: rects[a + 1] < rects[b + 1] ? usual : back,
        from: arrows[i], to: arrows[i + 1],
      });
    }
    this.scene.show(items, lines);
  }

  private colors(): (id: number, isOpen: boolean) => [number, number] {
    const { boxes } = this.hierarchy;
    const of = (name: string) => packed(themed(name));
    const kinds: Record<string, [number, number]> = {};
    for (const kind of ["leaf", "value", "operation", "view", "function", "module", "calls"])
      kinds[kind] = [of(`${kind}-fill`), of(`${kind}-line`)];
    const [bad, inside, frame, changed] = [of("bad"), of("inside"), of("frame"), of("changed")];
    const heats = Array.from({ length: 9 }, (_, i) => of(`heat-${i}`));
    const heat = this.heats();
    const isBad = this.upwards((node) => Number(this.value(node, "bad") ?? 0) > 0);
    const hasChanged = this.changed ? this.upwards((node) => this.changed![node] === 1) : null;
    return (id, isOpen) => {
      const box = boxes[id];
      const worst = hasChanged?.[id] === 1;
      if (isOpen) return [inside, frame];
      if (isBad[id]) return [bad, bad];
      const usual = kinds[box.kind] ?? kinds.operation;
      if (this.shade === "changes" || worst) return worst ? [changed, usual[1]] : [of("inside"), usual[1]];
      const level = heat?.[id];
      return heat ? [level !== undefined && level >= 0 ? heats[level] : of("inside"), usual[1]] : usual;
    };
  }

  /** For each box whether it, or something in it, has a node of which this holds. */
  private upwards(holds: (node: number) => boolean): Uint8Array {
    const { boxes } = this.hierarchy;
    const marks = new Uint8Array(boxes.length);
    for (let id = boxes.length - 1; id > 0; id--) {
      if (!marks[id] && boxes[id].nodes.some(holds)) marks[id] = 1;
      if (marks[id]) marks[boxes[id].parent] = 1;
    }
    return marks;
  }

  value(node: number, column: "low" | "high" | "mean" | "norm" | "zeros" | "bad" | "gradient") {
    const row = this.values.get(node);
    return row === undefined ? undefined : this.graph.values[column]?.[row];
  }

  /** A level from 0 to 8 for each box by its size, or the logarithm of what is measured; null where kinds are shown. */
  private heats(): Int8Array | null {
    if (this.shade === "kind" || this.shade === "changes") return null;
    const { boxes } = this.hierarchy;
    const sizes = new Float64Array(boxes.length);
    for (let id = boxes.length - 1; id >= 0; id--) {
      const box = boxes[id];
      const own = this.shade === "size" ? box.nodes.length : 0;
      const measured = this.shade === "size" ? own : this.largest(box);
      sizes[id] = Math.max(sizes[id], measured);
      if (box.parent >= 0) sizes[box.parent] = Math.max(sizes[box.parent], sizes[id]);
    }
    const some = [...sizes].filter((size) => size > 0).map(Math.log);
    const low = some.reduce((a, b) => Math.min(a, b), Infinity);
    const high = some.reduce((a, b) => Math.max(a, b), -Infinity);
    return Int8Array.from(sizes, (size) =>
      size > 0 ? Math.round((8 * (Math.log(size) - low)) / Math.max(high - low, 1e-9)) : -1,
    );
  }

  private largest(box: Box): number {
    const column = this.shade === "gradient" ? "gradient" : "norm";
    let most = 0;
    for (const node of box.nodes) {
      const value = this.value(node, column);
      if (typeof value === "number") most = Math.max(most, value);
    }
    return most;
  }

  titleOf(box: Box): string {
    return box.nodes.length > 1 ? `${box.title} × ${grouped(box.size)}` : box.title;
  }

  private underOf(box: Box): string {
    if (box.children.length) return count(box.size, "record");
    const node = box.nodes[0];
    return node === undefined ? "" : this.graph.types[this.graph.nodes.type[node]];
  }

  // -- open and close -----------------------------------------------------------------------------

  toggle(id: number): void {
    const box = this.hierarchy.boxes[id];
    if (!box.children.length || id === 0) return;
    const before = this.rectOf(id);
    this.open[id] = this.open[id] ? 0 : 1;
    this.lay(() => {
      this.keep(id, before);
      this.describe(id);
    });
  }

  /** A box stays where it was seen. */
  private keep(id: number, before: { x: number; y: number } | null): void {
    const now = this.rectOf(id);
    if (!before || !now) return;
    this.scene.x += now.x - before.x;
    this.scene.y += now.y - before.y;
    this.scene.draw();
  }

  private rectOf(id: number): { x: number; y: number; width: number; height: number } | null {
    const rects = this.layout?.rects;
    if (!rects || !rects[4 * id + 2]) return null;
    return { x: rects[4 * id], y: rects[4 * id + 1], width: rects[4 * id + 2], height: rects[4 * id + 3] };
  }

  openAll(): void {
    if (this.hierarchy.boxes.length > MOST_OPENED) return;
    this.open.fill(1);
    this.lay(() => this.scene.fit());
  }

  closeAll(): void {
    this.open.fill(0);
    this.open[0] = 1;
    this.lay(() => this.scene.fit());
  }

  /** Open what is around a box and bring it into sight. */
  reveal(id: number): void {
    let isHidden = false;
    for (let above = this.hierarchy.boxes[id].parent; above >= 0; above = this.hierarchy.boxes[above].parent) {
      isHidden ||= !this.open[above];
      this.open[above] = 1;
    }
    const look = () => {
      const rect = this.rectOf(id);
      if (rect) this.scene.zoomTo({ x: rect.x - 160, y: rect.y - 110, width: rect.width + 320, height: rect.height + 220 });
      this.select(id);
    };
    if (isHidden) this.lay(look);
    else look();
  }

  select(id: number): void {
    this.scene.mark(id);
    this.describe(Math.max(id, 0));
    this.selected(this);
  }

  // -- search ------------------------------------------------------------------------------------

  /** Boxes whose name, line, type or module has all words. */
  search(text: string): number[] {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const { boxes } = this.hierarchy;
    const { nodes, types, operations } = this.graph;
    const lines = this.graph.lines.map(([file, at, name]) =>
      `${this.sources.files[file]?.name ?? ""}:${at} in ${name}`.toLowerCase(),
    );
    const found: number[] = [];
    for (let id = 1; id < boxes.length && found.length < MOST_FOUND; id++) {
      const node = boxes[id].nodes[0];
      const line = node === undefined || nodes.line[node] < 0 ? "" : lines[nodes.line[node]];
      const type = node === undefined ? boxes[id].key : `${operations[nodes.op[node]]} ${types[nodes.type[node]]}`;
      const all = `${boxes[id].title} ${type} ${line}`.toLowerCase();
      if (words.every((word) => all.includes(word))) found.push(id);
    }
    return found;
  }

  // -- details -----------------------------------------------------------------------------------

  describe(id: number): void {
    const box = this.hierarchy.boxes[id];
    const node = box.nodes[0];
    this.panel.replaceChildren(
      el("h2", {}, this.titleOf(box)),
      ...(node === undefined ? this.ofContainer(id) : this.ofLeaf(id, node)),
    );
  }

  private ofContainer(id: number): Node[] {
    const box = this.hierarchy.boxes[id];
    const facts: [string, string][] = [["records", grouped(box.size)]];
    if (id === 0) facts.push(["batches", grouped(this.graph.stacks)]);
    const path = box.key.split("/").filter(Boolean).join(" › ");
    return [
      el("p", { class: "kind" }, id === 0 ? "all that the step recorded" : path),
      list(facts),
      ...(id === 0 ? [] : [el("button", { onclick: () => this.toggle(id) }, this.open[id] ? "close" : "open")]),
      el("h3", {}, "in it"),
      this.links(box.children),
    ];
  }

  private ofLeaf(id: number, node: number): Node[] {
    const { nodes, kinds, types, texts } = this.graph;
    const box = this.hierarchy.boxes[id];
    const text = texts[nodes.text[node]];
    const kind = kinds[nodes.kind[node]];
    const facts: [string, string][] = [["type", types[nodes.type[node]] || "–"]];
    if (text) facts.push(["with", text]);
    if (box.nodes.length > 1)
      facts.push(nodes.stack[node] >= 0 ? ["batch", `${count(box.size, "operation")} as one`] : ["alone", `${box.size} equal operations`]);
    const size = elements(types[nodes.type[node]]);
    if (size > 1) facts.push(["memory", bytes(size * box.size)]);
    return [
      el("p", { class: "kind" }, kind === "leaf" ? "parameter or leaf" : kind),
      list(facts),
      ...this.numbers(box),
      ...this.line(node),
      el("h3", {}, "reads"),
      this.links(this.neighbours(id, this.hierarchy.to, this.hierarchy.from)),
      el("h3", {}, "is read by"),
      this.links(this.neighbours(id, this.hierarchy.from, this.hierarchy.to)),
    ];
  }

  private numbers(box: Box): Node[] {
    const known = box.nodes.filter((node) => this.values.has(node));
    if (!known.length) return [el("p", { class: "faint" }, "values were not held")];
    const node = known.find((one) => Number(this.value(one, "bad")) > 0) ?? known[0];
    const zeros = this.value(node, "zeros");
    const facts: [string, string][] = [
      ["min", figure(this.value(node, "low"))],
      ["max", figure(this.value(node, "high"))],
      ["mean", figure(this.value(node, "mean"))],
      ["norm", figure(this.value(node, "norm"))],
      ["zeros", typeof zeros === "number" ? `${(100 * zeros).toFixed(1)} %` : "–"],
    ];
    const bad = known.filter((one) => Number(this.value(one, "bad")) > 0);
    if (bad.length) facts.push(["not finite", `${this.value(node, "bad")} elements${known.length > 1 ? ` (${bad.length} of ${known.length} values)` : ""}`]);
    facts.push(...this.gradients(known, this.value(node, "gradient")));
    return [el("h3", {}, known.length > 1 ? "value (of one of them)" : "value"), list(facts)];
  }

  /** The size of what came to an operation in the backward walk; of several the largest, too. */
  private gradients(known: number[], gradient: Figure | undefined): [string, string][] {
    const sizes = known.map((one) => this.value(one, "gradient")).filter((size) => typeof size === "number");
    const facts: [string, string][] = gradient === null || gradient === undefined ? [] : [["gradient's norm", figure(gradient)]];
    if (sizes.length > 1) facts.push(["largest of these", figure(Math.max(...sizes))]);
    return facts;
  }

  private line(node: number): Node[] {
    const line = this.graph.nodes.line[node];
    if (line < 0) return [];
    const [file, at] = this.graph.lines[line];
    return [el("h3", {}, lineOf(this.graph, node, this.sources)), snippet(this.sources, file, at)];
  }

  private neighbours(id: number, own: Int32Array, other: Int32Array): number[] {
    const found: number[] = [];
    for (let i = 0; i < own.length; i++) if (own[i] === id) found.push(other[i]);
    return found;
  }

  private links(ids: number[]): HTMLElement {
    const { boxes } = this.hierarchy;
    const rows = ids.slice(0, MOST_NEIGHBOURS).map((id) =>
      el("li", {}, el("button", { class: "link", onclick: () => this.reveal(id) }, this.titleOf(boxes[id])), " ", el("small", {}, this.underOf(boxes[id]))),
    );
    if (ids.length > MOST_NEIGHBOURS) rows.push(el("li", {}, `and ${ids.length - MOST_NEIGHBOURS} more`));
    return el("ul", {}, ...(rows.length ? rows : [el("li", { class: "faint" }, "nothing")]));
  }

  // -- mouse, fingers and keys --------------------------------------------------------------------

  private listen(canvas: HTMLCanvasElement): void {
    const points = new Map<number, PointerEvent>();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      points.set(event.pointerId, event);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = points.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      moved += Math.abs(dx) + Math.abs(dy);
      if (points.size === 2) this.pinch(points, event, canvas);
      points.set(event.pointerId, event);
      if (moved > 3 && points.size === 1) this.scene.pan(dx, dy);
    });
    const up = (event: PointerEvent) => {
      if (points.delete(event.pointerId) && moved <= 3 && event.type === "pointerup")
        this.select(this.scene.at(event.offsetX, event.offsetY)?.id ?? -1);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("dblclick", (event) => {
      const item = this.scene.at(event.offsetX, event.offsetY);
      if (item) this.toggle(item.id);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      this.scene.zoom(Math.exp(-event.deltaY * unit * 0.0015), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event, canvas));
  }

  private pinch(points: Map<number, PointerEvent>, event: PointerEvent, canvas: HTMLCanvasElement): void {
    const other = [...points.values()].find((point) => point.pointerId !== event.pointerId)!;
    const before = points.get(event.pointerId)!;
    const far = (a: PointerEvent) => Math.hypot(a.clientX - other.clientX, a.clientY - other.clientY) || 1;
    const box = canvas.getBoundingClientRect();
    this.scene.zoom(far(event) / far(before), other.clientX - box.left, other.clientY - box.top);
  }

  private key(event: KeyboardEvent, canvas: HTMLCanvasElement): void {
    const [x, y] = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.scene.pan(60, 0),
      ArrowRight: () => this.scene.pan(-60, 0),
      ArrowUp: () => this.scene.pan(0, 60),
      ArrowDown: () => this.scene.pan(0, -60),
      "+": () => this.scene.zoom(1.3, x, y),
      "=": () => this.scene.zoom(1.3, x, y),
      "-": () => this.scene.zoom(1 / 1.3, x, y),
      f: () => this.scene.fit(),
      Enter: () => this.toggle(this.scene.selected),
      Escape: () => this.select(-1),
    };
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

const ITEM_BYTES: Record<string, number> = { "64": 8, "32": 4, "16": 2, "8": 1, "128": 16 };

/** The bytes of a value of a type like `float32[2, 3]`. */
function elements(type: string): number {
  const [, name, sizes] = /^(\w+?)\[(.*)\]$/.exec(type) ?? [];
  if (name === undefined) return 0;
  const shape = sizes ? sizes.split(",").map(Number) : [];
  return shape.reduce((product, size) => product * size, ITEM_BYTES[/\d+/.exec(name)?.[0] ?? ""] ?? 1);
}
