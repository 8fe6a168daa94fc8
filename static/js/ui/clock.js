// How far the server's clock is ahead of this browser's, and how long commits take to get here.
// The offset comes from round trips: of the last ones the fastest is the most honest.

const SAMPLES = 12;
const LATENCIES = 200;

const now = () => performance.timeOrigin + performance.now();

export class Clock {
  constructor() {
    this.samples = [];
    this.latencies = [];
  }

  stamp() { return now(); }

  // A pong: sent at `sent`, the server's clock said `server` on the way.
  learn(sent, server) {
    const received = now();
    this.samples.push({ trip: received - sent, offset: server - (sent + received) / 2 });
    if (this.samples.length > SAMPLES) this.samples.shift();
  }

  get known() { return this.samples.length > 0; }

  get offset() {
    let best = null;
    for (const sample of this.samples) if (!best || sample.trip < best.trip) best = sample;
    return best ? best.offset : 0;
  }

  // The server's clock at this moment.
  server() { return now() + this.offset; }

  // Milliseconds from a commit to now; null where the clocks cannot both be right.
  since(commitMs) {
    if (!this.known || commitMs === null) return null;
    const ms = this.server() - commitMs;
    return ms < -20 ? null : Math.max(0, ms);
  }

  note(latency) {
    this.latencies.push(latency);
    if (this.latencies.length > LATENCIES) this.latencies.shift();
  }

  get median() {
    if (!this.latencies.length) return null;
    const sorted = [...this.latencies].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
  }
}
