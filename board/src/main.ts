// The page: its head, its views, and what is new from the run.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Source, type RunFacts } from "./data";
import { el } from "./dom";
import { GraphPage } from "./graph/page";
import { LearningPage } from "./learning";
import { MemoryPage } from "./memory";
import { TimePage } from "./time/page";

interface View {
  element: HTMLElement;
  refresh(): Promise<void>;
}

const STATES = {
  saved: "a saved run",
  live: "live",
  finished: "the run is over",
  gone: "the program has ended: this is its last state",
};

async function main(): Promise<void> {
  const app = document.getElementById("app")!;
  const state = el("span", { class: "state", role: "status" });
  const title = el("span", { class: "program" });
  let shown = "";
  const source = new Source(() => void (shown && show(shown)));
  const views: Record<string, View> = {
    graph: new GraphPage(source),
    time: new TimePage(source),
    learning: new LearningPage(source),
    memory: new MemoryPage(source),
  };
  const tabs = Object.keys(views).map((name) =>
    el("button", { role: "tab", id: `tab-${name}`, onclick: () => (location.hash = name) }, name[0].toUpperCase() + name.slice(1)),
  );
  const stage = el("main", {});
  const theme = el("button", { class: "theme", title: "light or dark", "aria-label": "light or dark", onclick: switchTheme }, "◐");
  app.append(el("header", {}, el("h1", {}, "weft board"), title, el("nav", { role: "tablist" }, ...tabs), state, theme), stage);

  async function show(name: string): Promise<void> {
    shown = name;
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.id === `tab-${name}`));
    const { element } = views[name];
    if (stage.firstChild !== element) stage.replaceChildren(element);
    state.textContent = STATES[source.state];
    state.dataset.state = source.state;
    try {
      const facts = await source.part<RunFacts | null>("run", null);
      title.textContent = facts ? facts.program : "";
      document.title = facts ? `${facts.program} – weft board` : "weft board";
      await views[name].refresh();
    } catch (error) {
      if (source.state !== "gone") state.textContent = `the page cannot show this: ${(error as Error).message}`;
      console.error(error);
    }
    document.body.dataset.shown = name;
  }

  const chosen = () => (location.hash.slice(1) in views ? location.hash.slice(1) : "graph");
  window.addEventListener("hashchange", () => void show(chosen()));
  const themed = () => void document.dispatchEvent(new Event("theme"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  document.addEventListener("theme", () => repaint(views));
  try {
    await source.open();
  } catch (error) {
    stage.replaceChildren(el("p", { class: "empty" }, `This run cannot be read: ${(error as Error).message}`));
    return;
  }
  await show(chosen());
}

function switchTheme(): void {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  document.dispatchEvent(new Event("theme"));
}

function repaint(views: Record<string, View>): void {
  const { view, other } = views.graph as GraphPage;
  for (const one of [view, other]) if (one?.scene.items.length) one.paint();
  for (const view of Object.values(views)) (view as { repaint?: () => void }).repaint?.();
}

void main();
