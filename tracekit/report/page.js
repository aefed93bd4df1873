"use strict";
// Draws the report from the JSON in the page.  Text from traces is only ever a text node.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.querySelector("main");
  const SVG = "http://www.w3.org/2000/svg";
  const state = { machine: 0, from: 0, to: data.phases.edges.length - 1, fn: 0 };

  function fill(node, attributes, children) {
    for (const [k, v] of Object.entries(attributes)) {
      if (typeof v === "function") node.addEventListener(k, v);
      else if (v !== null && v !== undefined) node.setAttribute(k, v);
    }
    for (const c of children) node.append(c);
    return node;
  }
  const el = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  const number = (x) => Math.round(x).toLocaleString("en-US");
  const percent = (x) => (100 * x).toFixed(1) + " %";
  const time = (s) => {
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
      if (s >= size) return (s / size).toPrecision(3) + " " + unit;
    return (s * 1e9).toPrecision(3) + " ns";
  };
  const bytes = (b) => (b >= 1048576 ? b / 1048576 + " MB" : b >= 1024 ? b / 1024 + " kB" : b + " B");
  const sum = (a) => a.reduce((x, y) => x + y, 0);

  // A hue a group, told apart by lightness too.
  const hues = {
    retiring: [150, 12], front_end: [285, 42], bad_speculation: [38, 88],
    back_end_core: [210, 70], back_end_memory: [10, 72],
  };
  const color = data.causes.map((c) => {
    const mates = data.causes.filter((d) => d.group === c.group);
    const at = mates.indexOf(c) / Math.max(1, mates.length - 1);
    const [h, s] = hues[c.group];
    return `hsl(${h} ${s}% ${38 + 34 * at}%)`;
  });
  const used = data.causes.map((_, k) => k).filter((k) => data.machines.some((m) => m.causes[k] > 0));

  function legend() {
    return el("ul", { class: "legend" }, ...used.map((k) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = color[k];
      return el("li", {}, swatch, data.causes[k].title);
    }));
  }

  // A chart is drawn at its width, and again when that changes.
  const charts = [];
  function chart(label, height, paint) {
    const svg = draw("svg", { role: "img", "aria-label": label, height });
    const again = () => {
      const width = Math.max(260, svg.parentNode ? svg.parentNode.clientWidth : 800);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren();
      paint(svg, width, height);
    };
    charts.push(again);
    svg.again = again;
    return svg;
  }
  addEventListener("resize", () => charts.forEach((c) => c()));

  // Only some of the parts, in a notebook.
  const wanted = (part) => !data.parts || data.parts.includes(part);
  function section(part, title, note, ...children) {
    const s = el("section", {}, el("h2", {}, title));
    if (note) s.append(el("p", { class: "soft" }, note));
    s.append(...children);
    if (wanted(part)) main.append(s);
    return s;
  }

  // --- the answer
  const answer = el("p", { class: "answer" });
  if (wanted("answer")) main.append(el("h1", {}, data.title), answer);
  const pick = el("select", {
    id: "machine",
    change: () => { state.machine = pick.selectedIndex; update(); },
  }, ...data.machines.map((m) => el("option", {}, m.name)));
  if (["answer", "phases", "functions"].some(wanted))
    main.append(el("div", { class: "controls" }, el("label", { for: "machine" }, "Machine"), pick));

  // --- machines side by side
  const ranked = data.machines.map((_, k) => k)
    .sort((a, b) => data.machines[a].seconds - data.machines[b].seconds);
  const most = Math.max(...data.machines.map((m) => m.seconds * (1 + (m.half_interval || 0)))) || 1;
  section("machines", "Machines, fastest first", data.machines.some((m) => m.half_interval)
    ? "Time by cause; all on one axis. Brackets: 95 % intervals of what was sampled."
    : "Time by cause; all on one axis.",
    chart("time of each machine by cause", 40 * ranked.length + 8, (svg, width) => {
      ranked.forEach((k, i) => {
        const m = data.machines[k], y = 40 * i + 16;
        let x = 0;
        const half = m.half_interval;
        const wide = half ? ` ± ${percent(half)}` : "";
        svg.append(draw("text", { x: 0, y: y - 3 },
          `${m.name}: ${time(m.seconds)}${wide}, ${(m.cycles / data.rows).toFixed(2)} cycles a row`));
        for (const c of used) {
          const w = (m.causes[c] / (m.cycles || 1)) * (m.seconds / most) * width;
          if (w > 0.2)
            svg.append(draw("rect", { x, y, width: w, height: 17, fill: color[c] },
              draw("title", {}, `${data.causes[c].title}: ${percent(m.causes[c] / m.cycles)}`)));
          x += w;
        }
        if (half) {
          const low = x * (1 - half), high = Math.min(width - 1, x * (1 + half)), mid = y + 8.5;
          svg.append(draw("path", { class: "whisker",
            d: `M${low} ${y + 4}V${y + 13}M${low} ${mid}H${high}M${high} ${y + 4}V${y + 13}` },
            draw("title", {}, `95 % interval: ± ${percent(half)}`)));
        }
      });
    }), legend());

  // --- phases
  const phases = data.phases, count = phases.edges.length - 1;
  const cycles = (p) => sum(phases.machines[state.machine][p]);
  const area = chart("cycles a row by cause over the trace", 240, (svg, width, height) => {
    const left = 38, bottom = height - 20, w = width - left;
    const per = [...Array(count).keys()].map((p) => cycles(p) / (phases.edges[p + 1] - phases.edges[p]));
    // A few phases that are far above the others (cold caches) go over the edge.
    const usual = per.slice().sort((a, b) => a - b)[Math.floor(0.95 * (count - 1))];
    const top = Math.min(Math.max(...per), 2 * usual) || 1;
    const x = (p) => left + (w * phases.edges[p]) / data.rows;
    const below = Array(count).fill(0);
    for (const c of used) {
      const low = below.slice();
      for (let p = 0; p < count; ++p)
        below[p] += phases.machines[state.machine][p][c] / (phases.edges[p + 1] - phases.edges[p]);
      const y = (v) => (bottom - Math.min(1, v / top) * (bottom - 8)).toFixed(1);
      let d = "";
      for (let p = 0; p < count; ++p)
        d += `${p ? "L" : "M"}${x(p).toFixed(1)} ${y(below[p])}H${x(p + 1).toFixed(1)}`;
      for (let p = count - 1; p >= 0; --p)
        d += `L${x(p + 1).toFixed(1)} ${y(low[p])}H${x(p).toFixed(1)}`;
      svg.append(draw("path", { d: d + "Z", fill: color[c] }, draw("title", {}, data.causes[c].title)));
    }
    svg.append(draw("line", { class: "axis", x1: left, x2: width, y1: bottom, y2: bottom }));
    for (const f of [0, 0.5, 1])
      svg.append(draw("text", { class: "soft", x: left - 5, y: bottom - f * (bottom - 8) + 4, "text-anchor": "end" },
        (top * f).toFixed(1)));
    svg.append(draw("text", { class: "soft", x: left, y: height - 4 }, "row 0"));
    svg.append(draw("text", { class: "soft", x: width, y: height - 4, "text-anchor": "end" }, number(data.rows)));
    const over = per.filter((v) => v > top).length;
    if (over)
      svg.append(draw("text", { class: "soft", x: left + w / 2, y: height - 4, "text-anchor": "middle" },
        `${over} of ${count} go up to ${Math.max(...per).toFixed(1)}`));
    svg.append(draw("rect", { class: "brush", x: x(state.from), y: 4,
      width: Math.max(1, x(state.to) - x(state.from)), height: bottom - 4 }));
    const at = (event) => {
      const r = svg.getBoundingClientRect();
      const row = ((event.clientX - r.left) * (width / r.width) - left) / w * data.rows;
      let p = 0;
      while (p < count - 1 && phases.edges[p + 1] <= row) ++p;
      return p;
    };
    svg.onpointerdown = (event) => {
      const first = at(event);
      svg.setPointerCapture(event.pointerId);
      const move = (e) => select(Math.min(first, at(e)), Math.max(first, at(e)) + 1);
      move(event);
      svg.onpointermove = move;
      svg.onpointerup = svg.onpointercancel = () => { svg.onpointermove = null; };
    };
  });
  area.style.touchAction = "none";
  area.style.userSelect = "none"; // else a second drag moves the text that the first one chose
  const range = (id, value, change) => el("input", { id, type: "range", min: 0, max: count, value,
    input: (e) => change(+e.target.value) });
  const from = range("from", 0, (v) => select(Math.min(v, state.to - 1), state.to));
  const to = range("to", count, (v) => select(state.from, Math.max(v, state.from + 1)));
  const chosen = el("div");
  section("phases", "Phases", "Cycles a row over the trace. Drag over the picture, or move the two ends, to choose a part of it.",
    area, el("div", { class: "controls" }, el("label", { for: "from" }, "from"), from,
      el("label", { for: "to" }, "to"), to,
      el("button", { type: "button", click: () => select(0, count) }, "all")), chosen);
  function select(a, b) {
    state.from = a; state.to = b;
    from.value = a; to.value = b;
    area.again();
    parts();
  }
  function parts() {
    const sums = data.causes.map((_, c) => {
      let n = 0;
      for (let p = state.from; p < state.to; ++p) n += phases.machines[state.machine][p][c];
      return n;
    });
    const total = sum(sums) || 1;
    const rows = used.filter((c) => sums[c] > 0).sort((a, b) => sums[b] - sums[a]);
    chosen.replaceChildren(
      el("p", { class: "soft", "aria-live": "polite" }, `Rows ${number(phases.edges[state.from])} to ` +
        `${number(phases.edges[state.to])}: ${number(sum(sums))} cycles on ${data.machines[state.machine].name}`),
      el("div", { class: "scroll" }, el("table", {},
        el("thead", {}, el("tr", {}, el("th", { class: "left" }, "cause"), el("th", { class: "left" }, "group"),
          el("th", {}, "cycles"), el("th", {}, "share"))),
        el("tbody", {}, ...rows.slice(0, 12).map((c) => {
          const swatch = el("span", { class: "swatch" });
          swatch.style.background = color[c];
          return el("tr", {}, el("td", { class: "left" }, swatch, data.causes[c].title),
            el("td", { class: "left" }, data.groups[data.causes[c].group]),
            el("td", {}, number(sums[c])), el("td", {}, percent(sums[c] / total)));
        })))));
  }

  // --- functions and their code
  const code = el("div");
  const table = el("tbody");
  section("functions", "Hot functions", data.functions_left
    ? `The ${data.functions.length} costliest; ${number(data.functions_left)} more are not shown.`
    : "Choose one to see its code.",
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {},
      el("th", { class: "left" }, "function"), el("th", {}, "cycles"), el("th", {}, "share"),
      el("th", {}, "executed"), el("th", { class: "left" }, "most but base"))), table)), code);
  let shown = 15;
  function functions() {
    const total = data.machines[state.machine].cycles || 1;
    const rows = data.functions.slice(0, shown).map((f, k) => {
      const open = () => { state.fn = k; functions(); };
      const v = f.machines[state.machine];
      return el("tr", { class: "pick", tabindex: 0, "aria-selected": k === state.fn, click: open,
        keydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open();
          table.children[k].focus(); } } },
        el("td", { class: "name" }, f.name), el("td", {}, number(v[0])), el("td", {}, percent(v[0] / total)),
        el("td", {}, number(f.rows)), el("td", { class: "left" }, data.causes[v[1]].title));
    });
    if (shown < data.functions.length)
      rows.push(el("tr", {}, el("td", { class: "left", colspan: 5 }, el("button", { type: "button",
        click: () => { shown = data.functions.length; functions(); } }, `all ${data.functions.length}`))));
    table.replaceChildren(...rows);
    lines();
  }
  function lines() {
    const f = data.functions[state.fn];
    code.replaceChildren();
    if (!f) return;
    code.append(el("h2", {}, f.name));
    if (!f.lines.length) {
      code.append(el("p", { class: "soft" }, "Its code is not in this report, which holds that of the costliest functions."));
      return;
    }
    if (f.lines_left)
      code.append(el("p", { class: "soft" }, `${number(f.lines_left)} instructions more are not shown.`));
    const total = data.machines[state.machine].cycles || 1;
    const body = [];
    let last = null;
    for (const l of f.lines) {
      if (l.line !== last && l.line) {
        last = l.line;
        body.push(el("tr", { class: "source" }, el("td", { class: "left", colspan: 3 }, l.line),
          el("td", { class: "code", colspan: 2 }, data.sources[l.line] || "")));
      }
      const v = l.machines[state.machine];
      body.push(el("tr", {}, el("td", {}, number(v[0])), el("td", {}, percent(v[0] / total)),
        el("td", {}, number(l.rows)), el("td", { class: "code" }, l.text),
        el("td", { class: "left" }, v[0] ? data.causes[v[1]].title : "")));
    }
    code.append(el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {},
      el("th", {}, "cycles"), el("th", {}, "share"), el("th", {}, "executed"),
      el("th", { class: "left" }, "instruction"), el("th", { class: "left" }, "most but base"))),
      el("tbody", {}, ...body))));
  }

  // --- a loop in the pipeline
  if (data.pipeline) {
    const pipe = data.pipeline, rows = pipe.rows;
    const first = Math.min(...rows.map((r) => r.at[0])), last = Math.max(...rows.map((r) => r.at[3]));
    const shades = ["hsl(38 70% 62%)", "hsl(210 70% 50%)", "hsl(210 12% 66%)"];
    const picture = chart(`pipeline of a loop: ${rows.length} rows in ${last - first} cycles`,
      17 * rows.length + 22, (svg, width, height) => {
        const left = width < 640 ? 0 : Math.min(330, 0.36 * width), w = width - left - 2;
        const x = (c) => left + (w * (c - first)) / Math.max(1, last - first);
        rows.forEach((r, i) => {
          const y = 17 * i + 2;
          const title = `${r.text}; dispatched ${r.at[0] - first}, issued ${r.at[1] - first}, complete ` +
            `${r.at[2] - first}, retired ${r.at[3] - first}${r.met.length ? "; " + r.met.join("; ") : ""}`;
          const most = Math.floor((left || width) / 7.3);
          const label = (r.met.length ? "● " : "") + r.text;
          if (i && i % pipe.length === 0)
            svg.append(draw("line", { class: "axis", x1: 0, x2: width, y1: y - 1.5, y2: y - 1.5 }));
          for (let k = 0; k < 3; ++k) {
            const from = x(r.at[k]), to = x(r.at[k + 1]);
            if (to > from)
              svg.append(draw("rect", { x: from, y: y + 1, width: Math.max(0.7, to - from), height: 12, fill: shades[k],
                "fill-opacity": left ? 1 : 0.45 }, draw("title", {}, title)));
          }
          svg.append(draw("text", { class: "code", x: 0, y: y + 11 },
            label.length > most ? label.slice(0, most - 1) + "…" : label, draw("title", {}, title)));
        });
        svg.append(draw("text", { class: "soft", x: left, y: height - 5 }, "cycle 0"));
        svg.append(draw("text", { class: "soft", x: width, y: height - 5, "text-anchor": "end" }, number(last - first)));
      });
    section("pipeline", "A loop in the pipeline",
      `Two iterations, from row ${number(pipe.begin)}, of the costliest loop on ${pipe.machine}: ${pipe.from} to ${pipe.to}, ` +
        `${pipe.length} rows each. A dot marks rows that met a miss or a misprediction.`,
      picture, el("ul", { class: "legend" }, ...pipe.stages.map((name, k) => {
        const swatch = el("span", { class: "swatch" });
        swatch.style.background = shades[k];
        return el("li", {}, swatch, name);
      })));
  }

  // --- what limits it
  const bars = (effects) => {
    const widest = Math.max(...effects.map((e) => Math.abs(e.gain)), 1e-9);
    return chart("change of time by change of the machine", 20 * effects.length + 4, (svg, width) => {
      const left = Math.min(220, width * 0.45), w = width - left - 60;
      effects.forEach((e, i) => {
        const y = 20 * i + 3;
        const most = Math.floor(left / 8);
        const name = e.change.length > most ? e.change.slice(0, most - 1) + "…" : e.change;
        svg.append(draw("text", { x: 0, y: y + 12 }, name, draw("title", {}, e.change)));
        svg.append(draw("rect", { x: left, y, height: 14, width: Math.max(1, (w * Math.abs(e.gain)) / widest),
          fill: e.gain > 0 ? "hsl(210 70% 50%)" : "hsl(10 72% 52%)" }));
        svg.append(draw("text", { class: "soft", x: left + (w * Math.abs(e.gain)) / widest + 5, y: y + 12 },
          (e.gain > 0 ? "−" : "+") + percent(Math.abs(e.gain))));
      });
    });
  };
  if (data.limits) {
    const steps = data.limits.effects;
    const help = steps.filter((e) => e.gain > 0.001).slice(0, 15);
    const hurt = steps.filter((e) => e.gain < -0.001).slice(-15).reverse();
    const same = steps.filter((e) => Math.abs(e.gain) <= 0.001).map((e) => e.change);
    const part = (title, list) => el("div", {}, el("p", {}, title), list.length ? bars(list) : el("p", { class: "soft" }, "nothing"));
    section("limits", `What limits it on ${data.machines[0].name}`,
      `Time when one parameter moves by one step, or is perfect; from ${number(data.limits.walked)} rows.`,
      el("div", { class: "columns" }, part("Less time", help), part("More time", hurt)),
      el("p", { class: "soft" }, `${same.length} changes move the time by 0.1 % or less: ${same.join(", ")}`));
  }

  // --- miss ratios
  if (data.mrc) {
    const kinds = [["data", "hsl(10 72% 52%)"], ["fetch", "hsl(285 42% 55%)"]];
    section("misses", "Miss ratios", "Of a fully associative LRU cache of each size, with the machines' own sizes marked.",
      chart("miss ratio by cache size", 250, (svg, width, height) => {
        const left = 44, bottom = height - 24, w = width - left - 10;
        const sizes = data.mrc.sizes, low = Math.log2(sizes[0]), high = Math.log2(sizes[sizes.length - 1]);
        const x = (b) => left + (w * (Math.log2(b) - low)) / (high - low);
        const top = Math.max(...kinds.flatMap(([k]) => data.mrc[k])) || 1;
        const y = (r) => bottom - (r / top) * (bottom - 42);
        data.mrc.marks.forEach((m, i) => {
          svg.append(draw("line", { class: "mark", x1: x(m.bytes), x2: x(m.bytes), y1: 38, y2: bottom },
            draw("title", {}, m.names.join(", "))));
          svg.append(draw("text", { class: "soft", x: x(m.bytes), y: 10 + 12 * (i % 3), "text-anchor": "middle" }, m.short));
        });
        for (const [kind, stroke] of kinds) {
          const d = data.mrc[kind].map((r, i) => (i ? `H${x(sizes[i]).toFixed(1)}V` : `M${x(sizes[0])} `) + y(r).toFixed(1));
          svg.append(draw("path", { class: "curve", d: d.join(""), stroke }, draw("title", {}, kind)));
        }
        svg.append(draw("line", { class: "axis", x1: left, x2: left + w, y1: bottom, y2: bottom }));
        for (const f of [0, 0.5, 1])
          svg.append(draw("text", { class: "soft", x: left - 5, y: y(top * f) + 4, "text-anchor": "end" }, percent(top * f)));
        sizes.forEach((b, i) => {
          if (i % (width < 600 ? 4 : 2) === 0)
            svg.append(draw("text", { class: "soft", x: x(b), y: height - 6, "text-anchor": "middle" }, bytes(b)));
        });
      }), el("ul", { class: "legend" }, ...kinds.map(([kind, fillColor]) => {
        const swatch = el("span", { class: "swatch" });
        swatch.style.background = fillColor;
        return el("li", {}, swatch, kind === "data" ? "data: each line that an access touches" : "fetch: each row's line");
      })));
  }

  // --- what bounds it
  if (data.notes.length)
    section("notes", "What these figures do not say", "", el("ul", {}, ...data.notes.map((n) => el("li", {}, n))));

  // --- how it was made
  section("how", "How this was made", "", el("dl", {}, ...Object.entries(data.how)
    .flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, String(v))])));

  function update() {
    answer.textContent = data.machines[state.machine].paragraph.replace(/(\d) %/g, "$1\u00a0%");
    area.again();
    parts();
    functions();
  }
  charts.forEach((c) => c());
  update();
})();
