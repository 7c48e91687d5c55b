// Draws events on a canvas, a lane for each thread and depth. Of what is narrower than a pixel one is drawn for each
// pixel, found by bisection: a frame's work grows with the pixels, not with the events.
import { duration, el, themed } from "../dom";
import { firstAfter, PHASES, type Lane, type TimeModel } from "./model";

const LANE = 19;
const RULER = 24;
const TITLE = 18;
const LEAST_NS = 50; // across the window

export class TimeChart {
  readonly element: HTMLElement;
  frames = 0;
  /** Milliseconds that the last frame took. */
  took = 0;
  private canvas = el("canvas", { tabindex: 0, class: "timeline", "aria-label": "what ran when; arrow keys move, + and - zoom, [ and ] go from one to the next" });
  private context = this.canvas.getContext("2d")!;
  private from = 0;
  private to = 1;
  private selected = -1;
  private waiting = false;
  private tops: number[] = [];
  private height = 0;
  private colors: string[] = [];

  constructor(
    readonly model: TimeModel,
    private chosen: (event: number) => void,
  ) {
    this.element = el("div", { class: "times" }, this.canvas);
    this.to = model.duration;
    this.place();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  private place(): void {
    let y = RULER;
    let row = -1;
    for (const lane of this.model.lanes) {
      if (lane.row !== row) {
        row = lane.row;
        y += TITLE;
      }
      this.tops.push(y);
      y += LANE;
    }
    this.height = y + 8;
    this.canvas.style.height = `${this.height}px`;
  }

  fit(): void {
    [this.from, this.to] = [0, this.model.duration];
    this.draw();
  }

  repaint(): void {
    this.colors = [];
    this.draw();
  }

  /** Show an event, with some of what is around it. */
  reveal(event: number): void {
    const { begin, end } = this.model;
    const around = Math.max(end[event] - begin[event], 200) * 2;
    this.look(begin[event] - around, end[event] + around);
    this.select(event);
  }

  select(event: number): void {
    this.selected = event;
    this.draw();
    this.chosen(event);
  }

  zoom(factor: number, px: number): void {
    const width = this.canvas.clientWidth || 1;
    const at = this.from + ((this.to - this.from) * px) / width;
    this.look(at - (at - this.from) / factor, at + (this.to - at) / factor);
  }

  pan(pixels: number): void {
    const by = (pixels * (this.to - this.from)) / (this.canvas.clientWidth || 1);
    this.look(this.from - by, this.to - by);
  }

  private look(from: number, to: number): void {
    const whole = this.model.duration;
    const span = Math.min(Math.max(to - from, LEAST_NS), 1.1 * whole);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, -0.05 * whole), 1.05 * whole - span);
    this.to = this.from + span;
    this.draw();
  }

  draw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const began = performance.now();
      this.render();
      this.took = performance.now() - began;
      this.frames++;
    });
  }

  private render(): void {
    const { canvas, context } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = this.element.clientWidth;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(this.height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(this.height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, this.height);
    context.textBaseline = "middle";
    if (!this.colors.length) this.colors = PHASES.map((phase) => themed(`phase-${phase}`));
    this.ruler(width);
    context.font = "11px system-ui, sans-serif";
    const ink = themed("bar-ink");
    this.model.lanes.forEach((lane, number) => {
      const top = this.tops[number];
      if (number === 0 || this.model.lanes[number - 1].row !== lane.row) {
        context.fillStyle = themed("faint");
        context.fillText(this.model.document.rows[lane.row] ?? "", 4, top - TITLE / 2);
      }
      this.lane(lane, top, width, ink);
    });
  }

  private ruler(width: number): void {
    const { context, from, to } = this;
    const span = to - from;
    const rough = (span * 110) / width;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((times) => times * unit >= rough)! * unit;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = themed("faint");
    context.strokeStyle = themed("rule");
    context.lineWidth = 1;
    context.beginPath();
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = Math.round(((at - from) / span) * width) + 0.5;
      context.moveTo(x, 0);
      context.lineTo(x, this.height);
      context.fillText(at === 0 ? "0" : duration(at), x + 3, 9);
    }
    context.stroke();
  }

  private lane({ events }: Lane, top: number, width: number, ink: string): void {
    const { context, model, from, to } = this;
    const { begin, end } = model;
    const perPixel = (to - from) / width;
    let place = Math.max(firstAfter(events, begin, from) - 1, 0);
    let filled = -1;
    while (place < events.length) {
      const event = events[place];
      if (begin[event] > to) break;
      if (end[event] < from) {
        place++;
        continue;
      }
      const x = Math.max((begin[event] - from) / perPixel, -1);
      const right = Math.min((end[event] - from) / perPixel, width + 1);
      context.fillStyle = this.colors[model.phase[event]];
      if (right - x < 1) {
        // Everything else in this pixel would lie upon it.
        const pixel = Math.floor(x);
        if (pixel !== filled) context.fillRect(pixel, top, 1, LANE - 2);
        filled = pixel;
        place = this.behindPixel(events, place, from + (pixel + 1) * perPixel);
        continue;
      }
      context.fillRect(x, top, Math.max(right - x - 0.4, 0.6), LANE - 2);
      if (event === this.selected) this.frame(x, top, right - x);
      if (right - x > 26) this.words(event, x, top, right - x, ink);
      place++;
    }
    const { selected } = this;
    if (selected >= 0 && this.laneOf(selected)?.events === events) {
      const x = (begin[selected] - from) / perPixel;
      this.frame(x, top, Math.max((end[selected] - begin[selected]) / perPixel, 2));
    }
  }

  /** The next event that ends behind a time: those before lie in one pixel. */
  private behindPixel(events: Int32Array, place: number, time: number): number {
    const next = firstAfter(events, this.model.begin, time);
    const last = next - 1;
    return last > place && this.model.end[events[last]] > time ? last : Math.max(next, place + 1);
  }

  private laneOf(event: number): Lane | undefined {
    const row = this.model.document.events.row[event];
    return this.model.lanes.find((lane) => lane.row === row && lane.depth === this.model.depth[event]);
  }

  private frame(x: number, top: number, width: number): void {
    const { context } = this;
    context.strokeStyle = themed("ink");
    context.lineWidth = 2;
    context.strokeRect(x + 1, top + 1, Math.max(width - 2, 2), LANE - 4);
  }

  private words(event: number, x: number, top: number, width: number, ink: string): void {
    const { context, model } = this;
    const { events, names } = model.document;
    const left = Math.max(x, 0);
    const room = Math.floor((x + width - left - 6) / 6.1);
    if (room < 3) return;
    const name = names[events.name[event]].replace(/^(aten|weft|nn\.Module)::?\s*/, "");
    context.fillStyle = ink;
    context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, left + 3, top + LANE / 2 - 1);
  }

  /** The event at a place of the canvas; -1 for none. */
  at(px: number, py: number): number {
    const lane = this.tops.findIndex((top) => py >= top && py < top + LANE);
    if (lane < 0) return -1;
    const perPixel = (this.to - this.from) / (this.canvas.clientWidth || 1);
    const time = this.from + px * perPixel;
    const found = this.model.at(this.model.lanes[lane], time);
    return found >= 0 ? found : this.model.at(this.model.lanes[lane], time + perPixel);
  }

  private listen(): void {
    const { canvas } = this;
    let held: { x: number; moved: number } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held = { x: event.clientX, moved: 0 };
    });
    canvas.addEventListener("pointermove", (event) => {
      const hovered = this.at(event.offsetX, event.offsetY);
      canvas.title = hovered < 0 ? "" : this.title(hovered);
      if (!held) return;
      const by = event.clientX - held.x;
      held = { x: event.clientX, moved: held.moved + Math.abs(by) };
      if (held.moved > 3) this.pan(by);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held && held.moved <= 3) this.select(this.at(event.offsetX, event.offsetY));
      held = null;
    });
    canvas.addEventListener("pointercancel", () => (held = null));
    canvas.addEventListener("dblclick", (event) => {
      const found = this.at(event.offsetX, event.offsetY);
      if (found >= 0) this.reveal(found);
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(-(event.deltaX || event.deltaY));
      else this.zoom(Math.exp(-event.deltaY * 0.002), event.offsetX);
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private title(event: number): string {
    const { events, names } = this.model.document;
    return `${names[events.name[event]]}  ${duration(this.model.end[event] - this.model.begin[event])}`;
  }

  private key(event: KeyboardEvent): void {
    const middle = this.canvas.clientWidth / 2;
    const { parent } = this.model.document.events;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.pan(80),
      ArrowRight: () => this.pan(-80),
      ArrowUp: () => this.selected >= 0 && parent[this.selected] >= 0 && this.select(parent[this.selected]),
      ArrowDown: () => this.into(),
      "+": () => this.zoom(1.4, middle),
      "=": () => this.zoom(1.4, middle),
      "-": () => this.zoom(1 / 1.4, middle),
      f: () => this.fit(),
      "]": () => this.selected + 1 < this.model.count && this.select(this.selected + 1),
      "[": () => this.selected > 0 && this.select(this.selected - 1),
      Enter: () => this.reveal(Math.max(this.selected, 0)),
      Escape: () => this.select(-1),
    };
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** To the first event within the selected one. */
  private into(): void {
    const child = this.selected < 0 ? 0 : this.model.document.events.parent.indexOf(this.selected);
    if (child >= 0 && this.model.count) this.select(child);
  }
}
