"use strict";
// The law of the page, once more: states (m, l, o) of pieces merge to states of
// splits, and these to the result. Every number of splits is compared with what
// flashdec computed and wrote into the page.
(() => {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent, (_, x) =>
    x === "NaN" ? NaN : x === "+Inf" ? Infinity : x === "-Inf" ? -Infinity : x);

  // merge is derivation 2.4.2. The state of no keys is known by m = −Infinity; one
  // state alone is its own merge, bit for bit.
  function merge(states) {
    const some = states.filter((s) => s.m !== -Infinity);
    if (some.length === 0) return { m: -Infinity, l: 0, o: new Array(data.shown).fill(0) };
    if (some.length === 1) return some[0];
    const m = Math.max(...some.map((s) => s.m));
    const w = some.map((s) => Math.exp(s.m - m) * s.l);
    const l = w.reduce((sum, x) => sum + x, 0);
    const o = new Array(data.shown).fill(0);
    some.forEach((s, b) => s.o.forEach((x, d) => { o[d] += w[b] * x; }));
    return { m, l, o: o.map((x) => x / l) };
  }

  const lse = (s) => (s.m === -Infinity ? s.m : s.m + Math.log(s.l));

  // border is where split i of n begins, in pieces: the first ones have one more.
  const border = (n, i) => i * Math.floor(data.pieces.length / n) + Math.min(i, data.pieces.length % n);

  const sinkState = data.sink === null ? [] : [{ m: data.sink, l: data.sink === -Infinity ? 0 : Math.exp(data.sink - data.sink), o: new Array(data.shown).fill(0), value: false }];

  function cut(n) {
    const splits = [];
    for (let i = 0; i < n; i++) {
      const pieces = data.pieces.slice(border(n, i), border(n, i + 1));
      splits.push({ ...merge(pieces), begin: pieces[0].begin, end: pieces[pieces.length - 1].end });
    }
    return { splits, merged: merge([...splits, ...sinkState]) };
  }

  // apart is |a − b|: 0 for equals, two NaNs among them; infinite where only one is
  // NaN, or infinities differ.
  function apart(a, b) {
    if (Object.is(a, b) || a === b) return 0;
    const d = Math.abs(a - b);
    return Number.isNaN(d) ? Infinity : d;
  }
  const furthest = (a, b) => a.reduce((worst, x, i) => Math.max(worst, apart(x, b[i])), 0);
  const fromDirect = (s) => Math.max(apart(lse(s), data.directLSE), furthest(s.o, data.directOut));
  const between = (a, b) => Math.max(apart(a.m, b.m), apart(a.l, b.l) / Math.max(1, Math.abs(b.l)), furthest(a.o, b.o) / data.scale);

  // Numbers as the rest of the page writes them.
  const minus = (text) => text.replaceAll("-", "−");
  const scientific = (x, digits) => minus(x.toExponential(digits).replace("e+", "e"));
  function decimal(x) {
    if (Number.isNaN(x)) return "NaN";
    if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
    const a = Math.abs(x);
    return a >= 1e6 || (a > 0 && a < 1e-3) ? scientific(x, 3) : minus(x.toFixed(4));
  }
  function percent(x) {
    if (!Number.isFinite(x)) return decimal(x);
    const f = 100 * x;
    return (f > 0 && f < 1e-3 ? scientific(f, 0) : f.toFixed(f > 0 && f < 0.05 ? 3 : 1)) + " %";
  }
  const tiny = (x) => (x === 0 || !Number.isFinite(x) ? decimal(x).replace(".0000", "") : scientific(x, 1));
  const signed = (x) => (decimal(x).startsWith("−") ? decimal(x) : " " + decimal(x));
  const vector = (o) => o.slice(0, 4).map(signed).join(" ") + (o.length > 4 ? " …" : "");
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const keys = (s) => (s.end - s.begin === 1 ? `${s.begin + data.first}` : `${s.begin + data.first}–${s.end - 1 + data.first}`);

  function make(name, attributes, text) {
    const svg = name === "svg" || name === "rect" || name === "path";
    const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function stateRow(name, s, merged) {
    const rescaled = s.m === -Infinity ? 0 : Math.exp(s.m - merged.m);
    const weight = s.m === -Infinity ? 0 : (rescaled * s.l) / merged.l;
    const bar = make("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(make("rect", { width: Number.isFinite(weight) ? 100 * weight : 0, height: 10 }));
    const share = make("td", { class: "share" });
    share.append(bar, percent(weight));
    const row = make("tr");
    row.append(make("th", { scope: "row" }, name), make("td", {}, decimal(s.m)), make("td", {}, decimal(s.l)), make("td", {}, decimal(rescaled)),
      make("td", {}, decimal(rescaled * s.l)), share, make("td", { class: "vector" }, s.value === false ? "no value" : vector(s.o)));
    return row;
  }

  // sum words Σ of some terms, the first few of them.
  function sum(terms) {
    const most = 5;
    const more = terms.length - most;
    return terms.slice(0, most).join(" + ") + (more > 0 ? ` + … (${more} more)` : "");
  }

  function drawBand(splits) {
    element("band").replaceChildren(...splits.map((s, i) => {
      const part = make("span", {}, splits.length <= 32 ? `${i + 1}` : "");
      part.style.flexGrow = s.end - s.begin;
      return part;
    }));
  }

  function drawLanes(splits) {
    const height = 100 / splits.length;
    const longest = Math.max(...splits.map((s) => s.end - s.begin));
    const x = (n) => (980 * n) / data.keys;
    element("lanes").replaceChildren(
      ...splits.map((s, i) => make("rect", { x: 0, y: (i + 0.12) * height, width: x(s.end - s.begin), height: 0.76 * height })),
      make("path", { d: `M${x(longest) + 4} 0V100` }));
    element("lanes").setAttribute("aria-label", `${count(splits.length, "processor")}, each reading at most ${longest} of ${data.keys} keys.`);
  }

  function drawMerge(splits, merged) {
    const all = [...splits, ...sinkState].filter((s) => s.m !== -Infinity);
    const factor = (s) => decimal(Math.exp(s.m - merged.m));
    const factorOf = (x) => (x < 0 ? `(${decimal(x)})` : decimal(x));
    const maxima = all.slice(0, 8).map((s) => decimal(s.m)).join(", ") + (all.length > 8 ? `, … (${all.length - 8} more)` : "");
    element("merge-m").textContent = `= max(${maxima}) = ${decimal(merged.m)}`;
    element("merge-l").textContent = `= ${sum(all.map((s) => `${factor(s)} · ${decimal(s.l)}`))} = ${decimal(merged.l)}`;
    element("merge-o").textContent = merged.o.length === 0 ? "" :
      `first element: (${sum(all.map((s) => `${factor(s)} · ${decimal(s.l)} · ${factorOf(s.o[0])}`))}) / ${decimal(merged.l)} = ${decimal(merged.o[0])}`;
  }

  function drawComparison(merged, n) {
    element("merged-of").textContent = count(n, "split");
    const precise = (x) => (Number.isFinite(x) ? minus(x.toPrecision(12)) : decimal(x));
    const rows = [["LSE", lse(merged), data.directLSE], ...merged.o.slice(0, 8).map((x, d) => [`out ${d + 1}`, x, data.directOut[d]])];
    element("compared").replaceChildren(...rows.map(([name, a, b]) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, name), make("td", {}, precise(a)), make("td", {}, precise(b)), make("td", {}, tiny(apart(a, b))));
      return row;
    }));
  }

  function show(n) {
    const { splits, merged } = cut(n);
    const difference = fromDirect(merged);
    const longest = Math.max(...splits.map((s) => s.end - s.begin));
    element("splits").setAttribute("aria-valuetext", count(n, "split"));
    element("number").textContent = n;
    element("fewer").disabled = n === 1;
    element("more").disabled = n === data.maxSplits;
    element("result").textContent = `${count(n, "split")}: a processor reads at most ${longest} of ${count(data.keys, "key")}. ` +
      `Merged, m = ${decimal(merged.m)}, ℓ = ${decimal(merged.l)}, LSE = ${decimal(lse(merged))}. Largest difference from the direct softmax: ${tiny(difference)}.`;
    element("states").replaceChildren(...splits.map((s) => stateRow(keys(s), s, merged)));
    if (element("sink")) element("sink").replaceChildren(...stateRow("sink", sinkState[0], merged).children);
    drawBand(splits);
    drawLanes(splits);
    drawMerge(splits, merged);
    drawComparison(merged, n);
  }

  // checks are what the page compares, each with what came out.
  function checks() {
    let worst = 0;
    for (let n = 1; n <= data.maxSplits; n++) worst = Math.max(worst, fromDirect(cut(n).merged));
    const list = [{
      text: `Every number of splits from 1 to ${data.maxSplits}, merged here, beside the direct softmax in float64`, got: worst, limit: data.limit,
    }];
    const { splits, merged } = cut(data.splits);
    list.push({
      text: `The states of ${count(data.splits, "split")}, merged here from ${count(data.pieces.length, "piece")}, beside those that flashdec walked key by key`,
      got: Math.max(...splits.map((s, i) => between(s, data.states[i]))), limit: data.sameLimit,
    });
    list.push({ text: "The result for these splits, beside flashdec’s merge", got: between(merged, data.merged), limit: data.sameLimit });
    if (data.steps.length > 0) {
      const visible = data.pieces.filter((p) => p.visible > 0);
      let state = merge([]);
      let far = 0;
      visible.forEach((p, i) => { state = merge([state, p]); far = Math.max(far, between(state, data.steps[i])); });
      list.push({ text: `The recurrence over ${count(visible.length, "key")}, a key at a time, beside flashdec’s`, got: far, limit: data.sameLimit });
    }
    return list;
  }

  function report(list) {
    const ok = list.every((c) => c.got <= c.limit);
    element("checks").replaceChildren(...list.map((c) => {
      const item = make("li", {});
      const good = c.got <= c.limit;
      item.append(make("span", { class: good ? "ok" : "bad" }, good ? "✓ " : "✗ "), `${c.text}: at most ${tiny(c.got)} apart, allowed ${tiny(c.limit)}.`);
      return item;
    }));
    element("verdict").dataset.check = ok ? "ok" : "failed";
    element("verdict").querySelector(".mark").textContent = ok ? "✓" : "✗";
    element("verdict-text").textContent = ok ?
      `This page computed the merge again for every number of splits from 1 to ${data.maxSplits}: the result ${list[0].got === 0 ? "is the direct softmax’s, to the last bit" : `is at most ${tiny(list[0].got)} from the direct softmax’s`}.` :
      "This page computed the merge again and came to other numbers than flashdec: see the end of the page.";
  }

  if (data.pieces.length === 0) {
    report([{ text: "No key is in reach: the merge of no states, beside the direct softmax", got: fromDirect(merge(sinkState)), limit: data.limit }]);
    element("verdict-text").textContent = "There is no key to cut: the merge of no states is the direct softmax.";
    return;
  }
  report(checks());
  if (!element("control")) return; // all keys are hidden
  element("control").hidden = false;
  element("picture").hidden = false;
  const slider = element("splits");
  const move = (n) => { slider.value = n; show(Number(slider.value)); };
  slider.addEventListener("input", () => show(Number(slider.value)));
  element("control").addEventListener("submit", (e) => e.preventDefault());
  element("fewer").addEventListener("click", () => move(Number(slider.value) - 1));
  element("more").addEventListener("click", () => move(Number(slider.value) + 1));
  move(data.splits);
})();
