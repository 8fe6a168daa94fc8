// The socket: connects, comes back after it was lost, and says from where to go on.

const WAITS_MS = [200, 500, 1000, 2000, 4000];
const PING_MS = 5000;
const SILENCE_MS = 12000;
const NOT_SIGNED_IN = 4401;
const NOT_ALLOWED = 4403;
const NO_SUCH_SLOT = 4404;
const TOO_MANY = 4429;
const TOO_MANY_WAIT_MS = 30000;

export class Connection {
  // on: {open(), message(m), lost(), ended(reason)}
  constructor(path, clock, on) {
    this.url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.clock = clock;
    this.on = on;
    this.attempt = 0;
    this.lostAt = null;
    this.ended = false;
    addEventListener("online", () => this.hurry());
    addEventListener("pagehide", () => { this.ended = true; this.socket?.close(); });
    addEventListener("pageshow", (event) => {
      if (event.persisted) { this.ended = false; this.connect(); }
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.hurry(); });
    this.connect();
  }

  get isOpen() { return this.socket?.readyState === WebSocket.OPEN; }

  connect() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => {
      this.heardAt = performance.now();
      this.on.open(this.lostAt === null ? null : performance.now() - this.lostAt);
      this.lostAt = null;
      for (const wait of [0, 150, 400, 900]) setTimeout(() => this.ping(), wait);
      this.pinger = setInterval(() => this.ping(), PING_MS);
    };
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      this.heardAt = performance.now();
      const message = JSON.parse(event.data);
      if (message.type === "pong") this.clock.learn(message.t, message.server_ms);
      else { this.attempt = 0; this.on.message(message); }
    };
    socket.onclose = (event) => { if (socket === this.socket) this.closed(event.code); };
  }

  closed(code) {
    clearInterval(this.pinger);
    if (this.ended) return;
    if (code === NOT_SIGNED_IN || code === NOT_ALLOWED || code === NO_SUCH_SLOT) {
      this.ended = true;
      this.on.ended(code === NOT_SIGNED_IN ? "signed-out" : "no-slot");
      return;
    }
    this.lostAt ??= performance.now();
    this.on.lost();
    const next = WAITS_MS[Math.min(this.attempt, WAITS_MS.length - 1)];
    const wait = code === TOO_MANY ? TOO_MANY_WAIT_MS : next;
    this.attempt += 1;
    this.timer = setTimeout(() => this.connect(), wait * (0.75 + Math.random() / 2));
  }

  hurry() {
    if (!this.ended && this.socket.readyState === WebSocket.CLOSED) { this.attempt = 0; this.connect(); }
  }

  ping() {
    if (!this.isOpen) return;
    // A tab in the background is woken rarely: silence means nothing there.
    if (!document.hidden && performance.now() - this.heardAt > SILENCE_MS) {
      const stale = this.socket;
      this.socket = null;
      stale.close();
      this.lostAt ??= this.heardAt;
      clearInterval(this.pinger);
      this.on.lost();
      this.connect();
      return;
    }
    this.send({ type: "ping", t: this.clock.stamp() });
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }
}
