// The boxes of a graph: modules, their calls, and in them operations, or stacks of operations that ran as one batch.
import type { GraphDocument } from "../data";

export type Mode = "stacks" | "records";

export interface Box {
  parent: number;
  /** Of a container: its boxes. Of a leaf: none. */
  children: number[];
  /** Of a leaf: its nodes. */
  nodes: number[];
  title: string;
  kind: string;
  /** Records below, or in it. */
  size: number;
  key: string;
}

export interface Hierarchy {
  boxes: Box[];
  /** The leaf of each node. */
  leafOf: Int32Array;
  /** Arrows between leaves, each once. */
  from: Int32Array;
  to: Int32Array;
  gradient: Uint8Array;
}

export function build(graph: GraphDocument, mode: Mode): Hierarchy {
  const builder = new Builder(graph, mode);
  return builder.finish();
}

class Builder {
  private boxes: Box[] = [];
  private keyed = new Map<string, number>();
  private containers: number[] = [];
  private leafOf: Int32Array;

  constructor(
    private graph: GraphDocument,
    private mode: Mode,
  ) {
    this.leafOf = new Int32Array(graph.nodes.op.length).fill(-1);
    this.box("", -1, "the step", "module");
    this.makeContainers();
  }

  private box(key: string, parent: number, title: string, kind: string): number {
    const id = this.boxes.length;
    this.boxes.push({ parent, children: [], nodes: [], title, kind, size: 0, key });
    if (parent >= 0) this.boxes[parent].children.push(id);
    this.keyed.set(key, id);
    return id;
  }

  private keyedBox(key: string, parent: number, title: string, kind: string): number {
    return this.keyed.get(key) ?? this.box(key, parent, title, kind);
  }

  /** A container for each call of a module; calls of one module within one call share a box around them. */
  private makeContainers(): void {
    const { scopes } = this.graph;
    const calls = new Map<string, number>();
    const keyOf = (number: number) => `${scopes[number].parent}/${scopes[number].name}`;
    scopes.forEach((_, number) => calls.set(keyOf(number), (calls.get(keyOf(number)) ?? 0) + 1));
    const seen = new Map<string, number>();
    scopes.forEach((scope, number) => {
      const outer = scope.parent < 0 ? 0 : this.containers[scope.parent];
      const path = `${this.boxes[outer].key}/${scope.name}`;
      const title = label(scope.name, scope.class);
      if (this.mode === "stacks") {
        this.containers.push(this.keyedBox(path, outer, title, "module"));
        return;
      }
      const times = calls.get(keyOf(number))!;
      if (times === 1) {
        this.containers.push(this.box(path, outer, title, "module"));
        return;
      }
      const around = this.keyedBox(path, outer, `${title} × ${times}`, "calls");
      const turn = (seen.get(keyOf(number)) ?? 0) + 1;
      seen.set(keyOf(number), turn);
      this.containers.push(this.box(`${path}#${turn}`, around, `${title}, call ${turn}`, "module"));
    });
  }

  finish(): Hierarchy {
    const { nodes, kinds, edges } = this.graph;
    const users = this.usersOfOutside();
    for (let node = 0; node < nodes.op.length; node++) {
      const outside = nodes.scope[node] < 0;
      const container = outside ? (users.get(node) ?? 0) : this.containers[nodes.scope[node]];
      this.leafOf[node] = this.leaf(node, container, kinds[nodes.kind[node]]);
    }
    this.count();
    return { boxes: this.boxes, leafOf: this.leafOf, ...this.arrows(edges) };
  }

  private leaf(node: number, container: number, kind: string): number {
    const { nodes, operations } = this.graph;
    const title = operations[nodes.op[node]];
    let key = `n${node}`;
    if (this.mode === "stacks" && kind !== "leaf") {
      const stack = nodes.stack[node];
      key = stack >= 0 ? `s${stack}` : `${container}|${nodes.op[node]}|${nodes.type[node]}|${nodes.line[node]}`;
    }
    const box = this.keyedBox(key, container, title, kind);
    this.boxes[box].nodes.push(node);
    return box;
  }

  /** For each leaf and value outside all modules: the innermost container around all that read it. */
  private usersOfOutside(): Map<number, number> {
    const { nodes, edges, kinds } = this.graph;
    const found = new Map<number, number>();
    for (let i = 0; i < edges.from.length; i++) {
      const node = edges.from[i];
      const kind = kinds[nodes.kind[node]];
      if (nodes.scope[node] >= 0 || (kind !== "leaf" && kind !== "value")) continue;
      const scope = nodes.scope[edges.to[i]];
      const user = scope < 0 ? 0 : this.containers[scope];
      const before = found.get(node);
      found.set(node, before === undefined ? user : this.common(before, user));
    }
    return found;
  }

  private common(a: number, b: number): number {
    const above = new Set<number>();
    for (let box = a; box >= 0; box = this.boxes[box].parent) above.add(box);
    let box = b;
    while (!above.has(box)) box = this.boxes[box].parent;
    return box;
  }

  private count(): void {
    const { size } = this.graph.nodes;
    for (const box of this.boxes) {
      const records = box.nodes.reduce((sum, node) => sum + (size?.[node] ?? 1), 0);
      if (!records) continue;
      for (let above: Box | undefined = box; above; above = this.boxes[above.parent]) above.size += records;
    }
    for (const box of this.boxes) box.children = box.children.filter((child) => this.boxes[child].size > 0);
  }

  private arrows(edges: GraphDocument["edges"]): Pick<Hierarchy, "from" | "to" | "gradient"> {
    const known = new Map<number, number>();
    const total = this.boxes.length;
    for (let i = 0; i < edges.from.length; i++) {
      const from = this.leafOf[edges.from[i]];
      const to = this.leafOf[edges.to[i]];
      if (from === to) continue;
      const key = from * total + to;
      known.set(key, Math.min(known.get(key) ?? 1, edges.gradient[i]));
    }
    const keys = [...known.keys()];
    return {
      from: Int32Array.from(keys, (key) => Math.floor(key / total)),
      to: Int32Array.from(keys, (key) => key % total),
      gradient: Uint8Array.from(known.values()),
    };
  }
}

function label(name: string, kind: string): string {
  const last = name.split(".").pop() ?? name;
  return last === kind ? kind : `${last}: ${kind}`;
}

/** The box that is seen for each box: itself, or the outermost closed container around it. */
export function visibleBoxes(boxes: Box[], open: Uint8Array): Int32Array {
  const seen = new Int32Array(boxes.length);
  for (let id = 1; id < boxes.length; id++) {
    const { parent } = boxes[id];
    seen[id] = seen[parent] === parent && open[parent] ? id : seen[parent];
  }
  return seen;
}

const FEW = 70;

/** Opens containers, outer ones first, as long as few boxes are seen. */
export function opened(boxes: Box[]): Uint8Array {
  const open = new Uint8Array(boxes.length);
  open[0] = 1;
  let seen = boxes[0].children.length;
  let waiting = boxes[0].children;
  while (waiting.length) {
    const next: number[] = [];
    for (const id of waiting) {
      const { children } = boxes[id];
      if (!children.length || seen + children.length - 1 > FEW) continue;
      open[id] = 1;
      seen += children.length - 1;
      for (const child of children) next.push(child);
    }
    waiting = next;
  }
  return open;
}
