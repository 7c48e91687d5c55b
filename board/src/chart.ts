// Curves over steps, by uPlot, with a legend of buttons that hide one curve each.
import uPlot from "uplot";
import { asNumber, bytes, el, figure, themed, type Figure } from "./dom";

const COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f"];
export const colorOf = (number: number) => COLORS[number % COLORS.length];

export interface Options {
  title: string;
  isLogarithmic?: boolean;
  isBytes?: boolean;
  isStacked?: boolean;
  most?: number;
}

/** A card with the curves of a group of columns, the largest first. */
export function curves(step: number[], columns: Record<string, Figure[]>, options: Options): HTMLElement {
  const names = largest(columns, options.most ?? 40);
  const data = names.map((name) => columns[name].map(asNumber));
  const shown = options.isStacked ? stacked(data) : data;
  const words = options.isBytes ? bytes : (value: number) => figure(value);
  const holder = el("div", {});
  const card = el("div", { class: "card" }, el("h2", {}, options.title), holder);
  const axis = { stroke: themed("faint"), grid: { stroke: themed("rule"), width: 1 }, ticks: { stroke: themed("rule") } };
  const isLogarithmic = options.isLogarithmic && data.flat().some((value) => value !== null && value > 0);
  const plot = new uPlot(
    {
      width: 400,
      height: 200,
      legend: { show: false },
      cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { distr: isLogarithmic ? 3 : 1, ...(options.isStacked ? { range: (_plot: uPlot, _low: number, high: number): [number, number] => [0, high * 1.05 || 1] } : {}) } },
      axes: [axis, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : words(tick))) }],
      series: [
        {},
        ...names.map((_, i) => ({
          stroke: colorOf(i),
          width: 1.5,
          fill: options.isStacked ? `${colorOf(i)}55` : undefined,
          points: { show: step.length < 3 },
        })),
      ],
    },
    [step, ...(isLogarithmic ? shown.map((column) => column.map((value) => (value !== null && value > 0 ? value : null))) : shown)] as uPlot.AlignedData,
    holder,
  );
  new ResizeObserver(() => plot.setSize({ width: Math.max(holder.clientWidth, 120), height: 200 })).observe(holder);
  card.append(legend(names, columns, words, (i, isOn) => plot.setSeries(i + 1, { show: isOn })));
  const left = Object.keys(columns).length - names.length;
  if (left > 0) card.append(el("p", { class: "faint" }, `and ${left} more`));
  return card;
}

function legend(
  names: string[],
  columns: Record<string, Figure[]>,
  words: (value: number) => string,
  set: (i: number, isOn: boolean) => void,
): HTMLElement {
  const entries = names.map((name, i) => {
    const last = columns[name][columns[name].length - 1];
    const swatch = el("i", {});
    swatch.style.background = colorOf(i);
    const button = el(
      "button",
      {
        onclick: () => {
          const isOff = button.classList.toggle("off");
          set(i, !isOff);
        },
      },
      swatch,
      `${name} ${typeof last === "number" ? words(last) : figure(last)}`,
    );
    return el("li", {}, button);
  });
  return el("ul", { class: "legend" }, ...entries);
}

function largest(columns: Record<string, Figure[]>, most: number): string[] {
  const names = Object.keys(columns).filter((name) => columns[name].some((value) => value !== null));
  if (names.length <= most) return names;
  const sizes = new Map(names.map((name) => [name, Math.max(...columns[name].map((value) => Math.abs(asNumber(value) ?? 0)))]));
  return names.sort((a, b) => sizes.get(b)! - sizes.get(a)!).slice(0, most);
}

/** Sums from the last to the first, so that each area lies upon the ones after it. */
function stacked(data: (number | null)[][]): (number | null)[][] {
  const sums = (data[0] ?? []).map(() => 0);
  return [...data].reverse().map((column) => column.map((value, i) => (sums[i] += value ?? 0))).reverse();
}
