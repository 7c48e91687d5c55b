// What changed in the graph between two steps: records are matched by module, operation, type and line; of equal ones
// the first of one with the first of the other.
import type { GraphDocument, Sources } from "../data";
import { placeOf } from "../source";

export interface Change {
  words: string;
  line: string;
  before: number;
  after: number;
  /** A node to look at. */
  node: number;
  isInAfter: boolean;
}

export interface Comparison {
  /** 1 where a node has no partner in the other graph. */
  onlyBefore: Uint8Array;
  onlyAfter: Uint8Array;
  changes: Change[];
}

export function compare(before: GraphDocument, after: GraphDocument, sources: Sources): Comparison {
  const [a, b] = [groups(before, sources), groups(after, sources)];
  const onlyBefore = new Uint8Array(before.nodes.op.length);
  const onlyAfter = new Uint8Array(after.nodes.op.length);
  const changes: Change[] = [];
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    const [was, is] = [a.get(key)?.nodes ?? [], b.get(key)?.nodes ?? []];
    for (const node of was.slice(is.length)) onlyBefore[node] = 1;
    for (const node of is.slice(was.length)) onlyAfter[node] = 1;
    if (weight(before, was) === weight(after, is)) continue;
    const group = (b.get(key) ?? a.get(key))!;
    const isInAfter = is.length > 0;
    changes.push({
      words: group.words,
      line: group.line,
      before: weight(before, was),
      after: weight(after, is),
      node: isInAfter ? is[is.length - 1] : was[was.length - 1],
      isInAfter,
    });
  }
  changes.sort((x, y) => Math.abs(y.after - y.before) - Math.abs(x.after - x.before));
  return { onlyBefore, onlyAfter, changes };
}

function weight(graph: GraphDocument, nodes: number[]): number {
  const { size } = graph.nodes;
  return size ? nodes.reduce((sum, node) => sum + size[node], 0) : nodes.length;
}

interface Group {
  nodes: number[];
  words: string;
  line: string;
}

function groups(graph: GraphDocument, sources: Sources): Map<string, Group> {
  const found = new Map<string, Group>();
  const { nodes } = graph;
  for (let node = 0; node < nodes.op.length; node++) {
    const scope = nodes.scope[node] < 0 ? "" : graph.scopes[nodes.scope[node]].name;
    const line = lineOf(graph, node, sources);
    const words = `${graph.operations[nodes.op[node]]} ${graph.types[nodes.type[node]]}`;
    const key = `${scope}|${words}|${line}`;
    const group = found.get(key);
    if (group) group.nodes.push(node);
    else found.set(key, { nodes: [node], words: scope ? `${words} in ${scope}` : words, line });
  }
  return found;
}

export function lineOf(graph: GraphDocument, node: number, sources: Sources): string {
  return placeOf(graph.lines, graph.nodes.line[node], sources);
}
