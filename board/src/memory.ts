// The memory view: what is alive over the steps, by line; what grows and who holds it.
import { curves } from "./chart";
import type { Memory, Source, Sources } from "./data";
import { bytes, el, table } from "./dom";
import { PeakCard } from "./peak";
import { snippet } from "./source";

const NOTHING: Memory = { step: [], columns: {}, places: {}, leaks: [] };

export class MemoryPage {
  readonly element = el("section", { class: "view" });
  private known = "";
  private peak: PeakCard;

  constructor(private source: Source) {
    this.peak = new PeakCard(source, () => this.repaint());
  }

  repaint(): void {
    this.known = "";
    if (this.element.isConnected) void this.refresh();
  }

  async refresh(): Promise<void> {
    const known = `${this.source.version("memory")} ${this.source.version("run")}`;
    if (known === this.known) return;
    this.known = known;
    const memory = await this.source.part("memory", NOTHING);
    const sources = await this.source.part<Sources>("sources", { files: [] });
    const { step, columns } = memory;
    if (!step.length) {
      this.element.replaceChildren(el("p", { class: "empty" }, "No step yet."));
      return;
    }
    const cards = el("div", { class: "charts" });
    if (memory.leaks.length) cards.append(this.leaks(memory, sources));
    cards.append(...(await this.peak.cards(sources)));
    cards.append(curves(step, columns.line ?? {}, { title: "alive after each step, by line", isBytes: true, isStacked: true, most: 12 }));
    const { live = [], peak = [], records = [] } = columns.total ?? {};
    cards.append(curves(step, { live, peak }, { title: "live bytes, and the peak so far", isBytes: true }));
    cards.append(curves(step, { records }, { title: "records alive" }));
    cards.append(this.byLine(memory, sources));
    this.element.replaceChildren(cards);
  }

  private leaks(memory: Memory, sources: Sources): HTMLElement {
    return el(
      "div",
      { class: "card alarm wide", id: "leaks" },
      el("h2", {}, "grows from step to step"),
      ...memory.leaks.map(({ line, counts, holders, place }) => {
        return el(
          "div",
          {},
          el("h3", {}, line),
          el("p", {}, `tensors of this line are held by ${holders.join("; ")}; its length at the last looks: ${counts.join(", ")}`),
          ...(place ? [snippet(sources, place[0], place[1])] : []),
        );
      }),
    );
  }

  private byLine(memory: Memory, sources: Sources): HTMLElement {
    const detail = el("div", {});
    const rows = Object.entries(memory.columns.line ?? {})
      .map(([line, sizes]): [string, number, number] => [line, Number(sizes[sizes.length - 1] ?? 0), Number(sizes.find((size) => size !== null) ?? 0)])
      .sort((a, b) => b[1] - a[1])
      .slice(0, 30)
      .map(([line, now, first]) => {
        const place = memory.places[line];
        const look = () => detail.replaceChildren(el("h3", {}, line), snippet(sources, place[0], place[1]));
        return [place ? el("button", { class: "link", onclick: look }, line) : line, bytes(now), bytes(now - first)];
      });
    return el("div", { class: "card" }, el("h2", {}, "by line"), table(["line", "now", "since the first step"], rows), detail);
  }
}
