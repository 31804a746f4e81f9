// A server-paged table of small cells. Cells are lists of parts; every text is set as text, never as markup.
import { h } from "vue";

function part(p, emit) {
  if (typeof p === "string") return p;
  const [kind, a, b, c] = p;
  if (kind === "t") return h("span", { class: b }, a);
  if (kind === "i") return h("svg", { class: ["i", b], "aria-hidden": "true" }, [h("use", { href: "#i-" + a })]);
  if (kind === "bar") {
    const parts = a.map(([cls, share]) => h("span", { class: cls, style: { flexGrow: share } }));
    return h("span", { class: "minibar", style: { width: b + "px" }, "aria-hidden": "true" }, parts);
  }
  if (kind === "spark") {
    return h("svg", { class: "spark", width: b, height: c, "aria-hidden": "true" }, [h("path", { d: a })]);
  }
  if (kind === "heat") {
    return h("span", { class: "heat", style: { "--heat": a } }, [h("span", { class: "n" }, b), c ? h("span", { class: "of" }, c) : null]);
  }
  if (kind === "act") {
    const go = (e) => { e.stopPropagation(); emit("act", b); };
    return h("button", { class: "link", type: "button", onClick: go }, a);
  }
  return "";
}

function box(state, label, onClick) {
  const mark = state === "some" ? "M4 8h8" : state === "all" ? "m4 8.3 2.7 2.7L12 5.5" : "";
  const go = (e) => { e.stopPropagation(); onClick(); };
  return h("button", {
    class: ["check", state && "on"], type: "button", role: "checkbox", "aria-label": label,
    "aria-checked": state === "some" ? "mixed" : String(Boolean(state)), onClick: go,
  }, mark ? [h("svg", { viewBox: "0 0 16 16" }, [h("path", { d: mark })])] : []);
}

export default {
  props: { columns: Array, rows: Array, sort: String, desc: Boolean, selected: Array, open: String, label: String, empty: String, keys: Boolean, head: Boolean },
  emits: ["sort", "open", "select", "act"],
  data() { return { live: this.rows, cursor: -1 }; },
  watch: { rows(value) { this.live = value; } },
  mounted() { if (this.keys) document.addEventListener("keydown", this.onKey); },
  unmounted() { document.removeEventListener("keydown", this.onKey); },
  methods: {
    patch(changes) {
      const next = this.live.slice();
      for (const [index, row] of Object.entries(changes)) next[index] = row;
      this.live = next;
    },
    onKey(e) {
      if (window.loradeck.typing(e) || e.ctrlKey || e.metaKey || e.altKey || !this.live.length) return;
      const move = { j: 1, k: -1 }[e.key];
      if (move) this.goto(Math.min(this.live.length - 1, Math.max(0, this.cursor + move)));
      const row = this.live[this.cursor];
      if (!row) return;
      if (e.key === "Enter" && e.target === document.body) this.$emit("open", row.id);
      if (e.key === "x" && this.selected) this.$emit("select", { id: row.id });
    },
    goto(index, focus) {
      this.cursor = index;
      this.$nextTick(() => {
        const row = this.$el.querySelector(".row.cursor");
        row?.scrollIntoView({ block: "nearest" });
        if (focus) row?.focus();
      });
    },
    // One row takes the Tab key; from there the arrows lead on and Enter opens.
    onRowKey(e, row, index) {
      if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
      const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (move) this.goto(Math.min(this.live.length - 1, Math.max(0, index + move)), true);
      else if (e.key === "Enter" || e.key === " ") this.$emit("open", row.id);
      else return;
      e.preventDefault();
    },
    header() {
      const cells = this.columns.map((c) => {
        const sorted = c.key === this.sort;
        const inner = [c.label];
        if (sorted) inner.push(h("svg", { class: "i", "aria-hidden": "true" }, [h("use", { href: this.desc ? "#i-down" : "#i-up" })]));
        const body = c.sort ? h("button", { type: "button", onClick: () => this.$emit("sort", c.key) }, inner) : inner;
        const aria = sorted ? (this.desc ? "descending" : "ascending") : undefined;
        return h("div", { class: ["cell", "c-" + c.key, c.cls, sorted && "sorted"], role: "columnheader", title: c.title, "aria-sort": aria }, [body]);
      });
      if (this.selected) {
        const on = this.live.filter((r) => this.selected.includes(r.id)).length;
        const state = on === 0 ? "" : on === this.live.length ? "all" : "some";
        cells.unshift(h("div", { class: "cell c-box", role: "columnheader" }, [box(state, "Select all rows on this page", () => this.$emit("select", { all: !state }))]));
      }
      return h("div", { class: "row head", role: "row" }, cells);
    },
    line(r, index) {
      const chosen = this.selected?.includes(r.id);
      const cells = this.columns.map((c, i) => h("div", { class: ["cell", "c-" + c.key, c.cls], role: "cell" }, (r.cells[i] || []).map((p) => part(p, this.$emit))));
      if (this.selected) cells.unshift(h("div", { class: "cell c-box", role: "cell" }, [box(chosen ? "all" : "", "Select " + r.name, () => this.$emit("select", { id: r.id }))]));
      const opens = r.still ? {} : {
        tabindex: index === Math.max(0, Math.min(this.cursor, this.live.length - 1)) ? 0 : -1,
        onClick: () => { this.cursor = index; this.$emit("open", r.id); },
        onKeydown: (e) => this.onRowKey(e, r, index),
        onFocus: () => { this.cursor = index; },
      };
      return h("div", {
        key: r.id, role: "row", "aria-selected": this.selected ? String(Boolean(chosen)) : undefined,
        class: ["row", r.cls, { chosen, opened: r.id === this.open, cursor: index === this.cursor }], ...opens,
      }, cells);
    },
  },
  render() {
    const style = { "--cols": (this.selected ? "32px " : "") + this.columns.map((c) => c.width).join(" ") };
    const body = this.live.length ? this.live.map(this.line) : [h("div", { class: "none" }, this.empty)];
    return h("div", { class: "grid", role: "table", "aria-label": this.label, style }, [this.head === false ? null : this.header(), h("div", { class: "body", role: "rowgroup" }, body)]);
  },
};
