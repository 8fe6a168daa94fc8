// The one time axis of all charts: where a moment is, and ticks at round local times.

import { dayWords, hourWords, secondWords } from "./words.js";

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [
  5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE,
  15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY,
  14 * DAY, 30 * DAY, 61 * DAY, 122 * DAY, 366 * DAY,
];

export class TimeAxis {
  constructor(since, until, width) {
    const narrow = matchMedia("(max-width: 639px)").matches;
    this.since = since;
    this.until = until;
    this.width = width;
    this.left = narrow ? 56 : 64;
    this.right = narrow ? 4 : 12;
  }

  get span() { return this.until - this.since; }
  get inside() { return Math.max(1, this.width - this.left - this.right); }

  // Pixels from the plot's left edge, its margin counted.
  x(ms) { return this.left + ((ms - this.since) / this.span) * this.inside; }

  moment(x) {
    const share = Math.min(Math.max((x - this.left) / this.inside, 0), 1);
    return this.since + share * this.span;
  }

  ticks() {
    const least = this.span / Math.max(2, Math.floor(this.inside / 92));
    const step = STEPS.find((one) => one >= least) ?? STEPS.at(-1);
    const values = step >= 28 * DAY ? this.months(Math.round(step / (30.4 * DAY))) : this.even(step);
    return { values, words: values.map((value) => this.word(value, step)) };
  }

  // Round in local time, whatever the zone; across a change of clocks as well.
  even(step) {
    const values = [];
    const offset = (ms) => new Date(ms).getTimezoneOffset() * MINUTE;
    let at = Math.ceil((this.since - offset(this.since)) / step) * step + offset(this.since);
    for (; at <= this.until; at += step) {
      const shift = offset(at) - offset(this.since);
      values.push(step >= HOUR ? at + shift : at);
    }
    return values;
  }

  months(step) {
    const values = [];
    const first = new Date(this.since);
    for (let month = first.getMonth(); ; month += 1) {
      const at = new Date(first.getFullYear(), month, 1);
      if (at > this.until) return values;
      if (at >= this.since && at.getMonth() % Math.max(1, step) === 0) values.push(at.getTime());
    }
  }

  word(ms, step) {
    const at = new Date(ms);
    if (step >= 28 * DAY) return at.getMonth() === 0 ? String(at.getFullYear()) : dayWords(at).split(" ")[1];
    if (step >= DAY || (at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0)) return dayWords(at);
    return step < MINUTE ? secondWords(at) : hourWords(at);
  }
}
