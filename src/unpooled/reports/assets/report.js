"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));

  // Hover, touch and arrow keys: the words of the nearest mark of a chart.
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  const heard = document.body.appendChild(document.createElement("div"));
  heard.className = "quiet";
  heard.setAttribute("aria-live", "polite");

  for (const chart of all("svg.chart")) {
    const marks = all(".mark", chart).map((mark) => {
      const title = mark.querySelector("title");
      const words = title ? title.textContent : "";
      if (title) title.remove(); // or the browser would show it as well
      return { mark, words, x: mark.cx.baseVal.value, y: mark.cy.baseVal.value };
    }).filter((one) => one.words);
    if (!marks.length) continue;
    const sorted = marks.slice().sort((a, b) => a.x - b.x || a.y - b.y);
    const rows = chart.dataset.rows === "1";
    const order = rows ? marks.slice().sort((a, b) => a.y - b.y || a.x - b.x) : sorted;
    let on = -1;

    const hide = () => {
      if (on >= 0) order[on].mark.classList.remove("on");
      on = -1;
      tip.hidden = true;
    };
    const show = (index, aloud) => {
      hide();
      on = index;
      const one = order[index];
      one.mark.classList.add("on");
      tip.textContent = one.words;
      tip.hidden = false;
      const box = one.mark.getBoundingClientRect();
      const width = tip.offsetWidth, middle = box.left + box.width / 2;
      const left = Math.min(Math.max(middle - width / 2, 4), root.clientWidth - width - 4);
      const above = box.top - tip.offsetHeight - 8;
      tip.style.left = `${left + window.scrollX}px`;
      tip.style.top = `${(above > 0 ? above : box.bottom + 8) + window.scrollY}px`;
      if (aloud) heard.textContent = one.words;
    };
    const nearest = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      let best = -1, least = 45 ** 2;
      order.forEach((one, i) => {
        const distance = (one.x - point.x) ** 2 + (one.y - point.y) ** 2;
        if (distance < least) { least = distance; best = i; }
      });
      return best;
    };
    const look = (event) => {
      const index = nearest(event);
      if (index < 0) hide(); else if (index !== on) show(index, false);
    };
    chart.addEventListener("pointermove", look);
    chart.addEventListener("pointerdown", look);
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (event.key === "Home") show(0, true);
      else if (event.key === "End") show(order.length - 1, true);
      else if (step) show(Math.min(Math.max((on < 0 ? (step > 0 ? -1 : order.length) : on) + step, 0), order.length - 1), true);
      else return;
      event.preventDefault();
    });
  }

  // Along the path: every slider, every cursor and every reading shows the same place.
  const path = data.path;
  if (path) {
    const sliders = all("input.along"), backs = all("button.back"), outputs = all("output.at");
    const values = all(".readings dd");
    const cursors = all(".cursor").map((line) => ({ line, at: line.dataset.at.split(" ") }));
    const curves = all(".line.alt").map((line) => ({ line, name: line.dataset.curve }));
    const move = (index) => {
      const chosen = index === path.chosen;
      for (const slider of sliders) {
        slider.value = index;
        slider.setAttribute("aria-valuetext", path.at[index]);
      }
      for (const output of outputs) output.textContent = path.at[index] + (chosen ? " (chosen)" : "");
      for (const back of backs) back.disabled = chosen;
      values.forEach((value, i) => { value.textContent = path.readings[i][index]; });
      for (const { line, at } of cursors) {
        line.setAttribute("x1", at[index]);
        line.setAttribute("x2", at[index]);
      }
      for (const { line, name } of curves) line.setAttribute("points", chosen ? "" : data.curves[name][index]);
    };
    for (const slider of sliders) slider.addEventListener("input", () => move(Number(slider.value)));
    for (const back of backs) back.addEventListener("click", () => { move(path.chosen); sliders[0].focus(); });
    move(path.chosen);
  }

  // One input at a time.
  const inputs = document.getElementById("input");
  if (inputs) {
    const figures = all("figure[data-input]");
    const choose = () => { for (const figure of figures) figure.hidden = figure.dataset.input !== inputs.value; };
    inputs.addEventListener("change", choose);
    inputs.addEventListener("input", choose);
    choose();
  }

  // Commands to take away.
  for (const command of all(".command")) {
    const button = command.appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${command.querySelector("h3").textContent}`);
    button.addEventListener("click", async () => {
      const code = command.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(code); // where pages may not write: ready for a key
        button.textContent = "Selected";
      }
      window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
