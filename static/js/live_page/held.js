// What was held back: rows for the list, and who stands in the band of open ones. As much as the
// list itself would keep; what is older can be loaded from the store like all that left the list.

export class Held {
  // onDrop(id): a row that will not be shown.
  constructor(page, onDrop) {
    this.page = page;
    this.onDrop = onDrop;
    this.items = [];
    this.open = null;
  }

  get size() { return this.items.length; }

  put(items) {
    this.items.push(...items);
    const more = this.items.length - this.page.list.limit;
    if (more > 0) for (const item of this.items.splice(0, more)) this.onDrop(item.id);
    this.page.hold.show(this.page.stream.paused ? 0 : this.size);
  }

  release() {
    const { items, open } = this;
    if (!items.length && !open) return;
    this.items = [];
    this.open = null;
    const { band, list, hold } = this.page;
    hold.steady(() => {
      for (const item of items) band.leave(item.id);
      if (open) band.show(open);
      list.add(items, { fresh: true });
    });
    hold.show(0);
    this.page.changed();
  }

  forget() {
    this.items = [];
    this.page.hold.show(0);
  }
}
