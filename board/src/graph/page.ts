// The graph view: which step, how it is drawn, search, and two steps side by side.
import { choice, count, el, table } from "../dom";
import type { GraphDocument, GraphSummary, RunFacts, Source, Sources } from "../data";
import { compare, type Comparison } from "./compare";
import type { Mode } from "./hierarchy";
import { GraphView, type Shade } from "./view";

const NO_GRAPH: Sources = { files: [] };

export class GraphPage {
  readonly element = el("section", { class: "view graph-view" });
  view: GraphView | null = null;
  other: GraphView | null = null;
  private step = "newest";
  private against = "";
  private mode: Mode = "stacks";
  private shade: Shade = "kind";
  private known = "";
  private bar = el("div", { class: "bar" });
  private stage = el("div", { class: "stage" });
  private found = el("ul", { class: "found" });
  private search = el("input", {
    type: "search",
    placeholder: "search: name, line, shape",
    "aria-label": "search the graph",
    oninput: () => this.find(),
  });

  constructor(private source: Source) {
    this.element.append(this.bar, this.stage);
  }

  async refresh(): Promise<void> {
    const facts = await this.source.part<RunFacts | null>("run", null);
    const graphs = facts?.graphs ?? [];
    if (!graphs.length) {
      this.stage.replaceChildren(el("p", { class: "empty" }, "No graph yet: it comes with the first backward of a step."));
      return;
    }
    const chosen = this.chosen(graphs, this.step);
    const other = this.against ? this.chosen(graphs, this.against) : null;
    const known = [chosen.id, other?.id, this.mode, graphs.length].join(" ");
    if (known === this.known) return;
    const isSame = known.split(" ").slice(0, 3).join(" ") === this.known.split(" ").slice(0, 3).join(" ");
    this.known = known;
    this.controls(graphs, chosen);
    if (!isSame || !this.view) await this.draw(chosen, other);
  }

  /** The newest one is followed until somebody looks at it closely. */
  private chosen(graphs: GraphSummary[], step: string): GraphSummary {
    return graphs.find(({ id }) => String(id) === step) ?? graphs[graphs.length - 1];
  }

  private controls(graphs: GraphSummary[], chosen: GraphSummary): void {
    const steps = graphs.map(({ id, step, records }): [string, string] => [String(id), `${step} (${count(records, "record")})`]);
    const again = () => void this.refresh();
    const button = (text: string, act: () => void, title: string) => el("button", { onclick: act, title }, text);
    this.bar.replaceChildren(
      choice("step", [["newest", `newest: ${chosen.step}`], ...steps], this.step, (step) => {
        this.step = step;
        again();
      }),
      choice("beside", [["", "nothing"], ...steps], this.against, (step) => {
        this.against = step;
        if (step && this.step === "newest") this.step = String(chosen.id);
        again();
      }),
      choice("show", [["stacks", "batches as stacks"], ["records", "each record"]], this.mode, (mode) => {
        this.mode = mode as Mode;
        again();
      }),
      choice(
        "colour",
        [["kind", "kind"], ["value", "size of values"], ["gradient", "size of gradients"], ["size", "size of batches"], ["changes", "changes"]],
        this.shade,
        (shade) => {
          this.shade = shade as Shade;
          this.view?.shadeBy(this.shade);
          this.other?.shadeBy(this.shade);
        },
      ),
      el(
        "span",
        { class: "buttons" },
        button("fit", () => this.each((view) => view.scene.fit()), "show all of it (f)"),
        button("open all", () => this.each((view) => view.openAll()), "open every module"),
        button("close all", () => this.each((view) => view.closeAll()), "close every module"),
      ),
      el("div", { class: "search" }, this.search, this.found),
    );
  }

  private each(act: (view: GraphView) => void): void {
    for (const view of [this.view, this.other]) if (view) act(view);
  }

  private async draw(chosen: GraphSummary, other: GraphSummary | null): Promise<void> {
    const sources = await this.source.part("sources", NO_GRAPH);
    const graph = await this.source.part<GraphDocument | null>(`graph/${chosen.id}`, null);
    const beside = other && (await this.source.part<GraphDocument | null>(`graph/${other.id}`, null));
    if (!graph) return;
    try {
      this.prepare(beside !== null && beside !== undefined);
    } catch (error) {
      this.stage.replaceChildren(el("p", { class: "empty" }, String((error as Error).message)));
      return;
    }
    const view = this.view!;
    view.changed = null;
    if (beside && this.other) {
      const difference = compare(beside, graph, sources);
      view.changed = difference.onlyAfter;
      this.other.changed = difference.onlyBefore;
      this.other.show(beside, this.mode, sources);
      this.tell(difference, other!, chosen);
    }
    view.show(graph, this.mode, sources);
    this.each((one) => one.shadeBy(this.shade));
  }

  private prepare(isTwo: boolean): void {
    this.view ??= new GraphView((view) => this.choose(view));
    if (isTwo) this.other ??= new GraphView((view) => this.choose(view));
    else {
      this.other?.close();
      this.other = null;
    }
    this.changes.replaceChildren();
    this.stage.replaceChildren(
      el("div", { class: isTwo ? "pair" : "single" }, ...(this.other ? [this.other.element] : []), this.view.element),
      el("div", { class: "side" }, this.changes, this.side),
    );
    this.side.replaceChildren(this.view.panel);
  }

  private changes = el("div", { class: "changes" });
  private side = el("div", {});

  private choose(view: GraphView): void {
    this.side.replaceChildren(view.panel);
  }

  private tell({ changes }: Comparison, before: GraphSummary, after: GraphSummary): void {
    const rows = changes.slice(0, 60).map(({ words, line, before: was, after: is, node, isInAfter }) => {
      const look = () => {
        const view = isInAfter ? this.view! : this.other!;
        view.reveal(view.hierarchy.leafOf[node]);
      };
      return [el("button", { class: "link", onclick: look }, words), line, String(was), String(is)];
    });
    const none = "Both steps recorded the same graph.";
    this.changes.replaceChildren(
      el("h2", {}, `from step ${before.step} to step ${after.step}`),
      rows.length ? table(["operation", "line", "before", "after"], rows) : el("p", {}, none),
      ...(changes.length > 60 ? [el("p", { class: "faint" }, `and ${changes.length - 60} more`)] : []),
    );
  }

  private find(): void {
    const { view } = this;
    const ids = view?.search(this.search.value) ?? [];
    this.found.replaceChildren(
      ...ids.slice(0, 60).map((id) => {
        const box = view!.hierarchy.boxes[id];
        const parents = view!.hierarchy.boxes[box.parent]?.title ?? "";
        const go = () => {
          view!.reveal(id);
          this.found.replaceChildren();
        };
        return el("li", {}, el("button", { class: "link", onclick: go }, view!.titleOf(box)), " ", el("small", {}, parents));
      }),
      ...(ids.length > 60 ? [el("li", { class: "faint" }, `and ${ids.length - 60} more`)] : []),
      ...(this.search.value && !ids.length ? [el("li", { class: "faint" }, "nothing has these words")] : []),
    );
  }
}
