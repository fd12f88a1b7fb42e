// Keeps the pages of the console up to date, and helps in the editor. Every page works without it.
"use strict";

function follow(section) {
  const state = document.getElementById("job-state");
  const detail = document.getElementById("job-detail");
  const messages = document.getElementById("job-messages");
  const ask = async () => {
    let said;
    try {
      const answer = await fetch(section.dataset.follow);
      if (!answer.ok) throw new Error(answer.status);
      said = await answer.json();
    } catch {
      state.textContent = "The console does not answer; it may have been stopped";
      window.setTimeout(ask, 3000);
      return;
    }
    if (said.ended) {
      window.location.reload();
      return;
    }
    detail.textContent = said.detail;
    for (const message of said.messages.slice(messages.children.length)) {
      const line = document.createElement("li");
      line.textContent = message;
      messages.append(line);
    }
    window.setTimeout(ask, 400);
  };
  window.setTimeout(ask, 200);
}

const WIDTH = 2;  // blanks of one level

class Editor {
  constructor(form) {
    this.form = form;
    this.text = document.getElementById("text");
    this.numbers = document.getElementById("numbers");
    this.findings = document.getElementById("findings");
    this.panel = document.getElementById("completion");
    this.choices = document.getElementById("choices");
    this.what = document.getElementById("completion-what");
    this.schema = null;
    this.asked = 0;
    this.text.addEventListener("scroll", () => { this.numbers.scrollTop = this.text.scrollTop; });
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.panel.addEventListener("keydown", (event) => this.keyInPanel(event));
    document.addEventListener("click", (event) => this.goToFinding(event));
    document.addEventListener("click", (event) => this.measure(event));
    document.addEventListener("input", (event) => this.slide(event.target));
    document.addEventListener("change", (event) => this.formChanged(event.target));
    this.measured = new Map();
    this.showSliders();
    window.addEventListener("beforeunload", (event) => { if (this.unsaved) event.preventDefault(); });
    form.addEventListener("submit", () => { this.unsaved = false; });
    this.unsaved = false;
    this.number();
    const line = /^#line-(\d+)$/.exec(window.location.hash);
    if (line) this.goTo(Number(line[1]), 1);
  }

  changed() {
    this.unsaved = true;
    this.close();
    this.number();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), 500);
  }

  number() {
    const faults = new Set(
      Array.from(this.findings.querySelectorAll(".fault"), (link) => Number(link.dataset.line)));
    const lines = this.text.value.split("\n").length;
    this.numbers.replaceChildren(...Array.from({ length: lines }, (_, place) => {
      if (!faults.has(place + 1)) return document.createTextNode(`${place + 1}\n`);
      const mark = document.createElement("span");
      mark.className = "fault";
      mark.textContent = place + 1;
      return mark;
    }));
    this.numbers.scrollTop = this.text.scrollTop;
  }

  async check() {
    const asked = ++this.asked;
    const sent = this.text.value;
    const fields = new URLSearchParams(new FormData(this.form));
    fields.set("live", "1");
    const answer = await fetch(this.form.getAttribute("action"), { method: "POST", body: fields });
    // What was typed meanwhile is not written over: it is asked about by itself.
    if (!answer.ok || asked !== this.asked || this.text.value !== sent) return;
    const part = document.createElement("template");
    part.innerHTML = await answer.text();  // escaped by the console
    const focused = document.activeElement.id;
    for (const id of ["findings", "forms"]) {
      document.getElementById(id).replaceChildren(...part.content.getElementById(id).childNodes);
    }
    this.write(part.content.getElementById("written").value);
    this.showSliders();
    // What is hidden takes no focus, so only now.
    document.getElementById(focused)?.focus({ preventScroll: true });
    this.number();
  }

  // The text that the form made of it: only what differs is inserted, so that Ctrl+Z takes it back.
  write(made) {
    const had = this.text.value;
    if (made === had) return;
    let from = 0;
    while (from < made.length && made[from] === had[from]) from += 1;
    let same = 0;
    const most = Math.min(made.length, had.length) - from;
    while (same < most && made[made.length - 1 - same] === had[had.length - 1 - same]) same += 1;
    this.text.focus({ preventScroll: true });
    this.text.setSelectionRange(from, had.length - same);
    const middle = made.slice(from, made.length - same);
    document.execCommand(middle ? "insertText" : "delete", false, middle);
    window.clearTimeout(this.timer);
    this.unsaved = true;
  }

  formChanged(control) {
    if (control.dataset.of) control = document.getElementById(control.dataset.of);
    if (control.form === this.form && /^(at|answer) /.test(control.name)) this.check();
  }

  // Sliders go by ratios: half and double are equally far.
  slide(slider) {
    const number = document.getElementById(slider.dataset?.of);
    if (!number) return;
    const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
    const value = low * (high / low) ** (slider.value / 100);
    const whole = /^\d+$/.test(number.value) && low >= 1;
    number.value = whole ? Math.round(value) : Number(value.toPrecision(2));
    this.showMeasured(number);
  }

  showSliders() {
    for (const slider of document.querySelectorAll("input[data-of]")) {
      const number = document.getElementById(slider.dataset.of);
      const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
      slider.hidden = false;
      slider.value = 100 * Math.log(Number(number.value) / low) / Math.log(high / low);
    }
    for (const number of document.querySelectorAll("input[data-sweep]")) this.showMeasured(number);
  }

  // Beside a number, what was measured for the nearest one; its row is marked.
  showMeasured(number) {
    const rows = this.measured.get(number.dataset.sweep) ?? [];
    const value = (row) => Number(row.dataset.setting.split(" ").pop());
    const far = (row) => Math.abs(Math.log(value(row) / Number(number.value)));
    const near = rows.reduce((best, row) => (best && far(best) <= far(row) ? best : row), null);
    for (const row of rows) row.setAttribute("aria-current", row === near);
    if (!near) return;
    const heads = Array.from(near.closest("table").querySelectorAll("thead th")).slice(2);
    const cells = Array.from(near.cells).slice(2).map((cell, place) => `${heads[place]?.innerText}: ${cell.innerText}`);
    const says = near.cells.length > 3 ? cells : [near.cells[near.cells.length - 1].innerText];
    const beside = document.getElementById(number.id.replace("number", "beside"));
    beside.textContent = `Measured at ${value(near)}. ${says.join("; ").replace(/\s+/g, " ")}`;
  }

  // A comparison is a job like any other; with scripts its table comes to the slider.
  async measure(event) {
    const button = event.target.closest("button[name=sweep]");
    if (!button) return;
    event.preventDefault();
    const place = document.getElementById("measured");
    const fields = new URLSearchParams(new FormData(this.form, button));
    const begun = await fetch(button.formAction, { method: "POST", body: fields });
    let page = new DOMParser().parseFromString(await begun.text(), "text/html");
    place.textContent = "Measuring";
    while (begun.ok && page.querySelector("[data-follow]")) {
      await new Promise((done) => { window.setTimeout(done, 400); });
      const said = await (await fetch(`${begun.url}/progress`)).json();
      place.textContent = `Measuring: ${said.messages.at(-1) ?? ""} ${said.detail}`;
      if (said.ended) page = new DOMParser().parseFromString(await (await fetch(begun.url)).text(), "text/html");
    }
    const table = page.getElementById("settings")?.closest("section");
    place.replaceChildren(table ?? page.querySelector(".problem") ?? page.querySelector("main"));
    if (table) this.measured.set(button.value, Array.from(table.querySelectorAll("[data-setting]")));
    this.showSliders();
  }

  goToFinding(event) {
    const link = event.target.closest("#findings [data-line]");
    if (!link) return;
    event.preventDefault();
    this.goTo(Number(link.dataset.line), Number(link.dataset.column));
  }

  goTo(line, column) {
    const lines = this.text.value.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    const length = (lines[line - 1] || "").length;
    const from = before + Math.min(column - 1, length);
    this.text.focus();
    this.text.setSelectionRange(from, before + length);
    const height = this.text.scrollHeight / lines.length;
    this.text.scrollTop = Math.max(0, height * (line - 6));
  }

  key(event) {
    if (event.ctrlKey && event.code === "Space") {
      event.preventDefault();
      this.complete();
    } else if (event.key === "Escape") {
      this.close();
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      this.insert(`\n${this.indentOfNext()}`);
    }
  }

  // As the line that the caret leaves, and deeper below a key that awaits its content.
  indentOfNext() {
    const line = this.text.value.slice(0, this.text.selectionStart).split("\n").pop();
    const blanks = /^ */.exec(line)[0];
    const [bare] = line.split(" #");
    return /:\s*$/.test(bare) ? blanks + " ".repeat(WIDTH) : blanks;
  }

  // The one way to insert that can be undone with Ctrl+Z.
  insert(text) {
    document.execCommand("insertText", false, text);
  }

  keyInPanel(event) {
    const buttons = Array.from(this.choices.querySelectorAll("button"));
    const place = buttons.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && place >= 0) {
      event.preventDefault();
      buttons[(place + step + buttons.length) % buttons.length].focus();
    } else if (event.key === "Escape") {
      this.close();
      this.text.focus();
    }
  }

  close() {
    this.panel.hidden = true;
  }

  async complete() {
    this.schema ??= await (await fetch(this.form.dataset.schema)).json();
    const { path, typed, ofValue } = this.position();
    const found = this.suggestions(path, ofValue)
      .filter((each) => each.insert.toLowerCase().startsWith(typed.toLowerCase()));
    const where = path.join(".") || "the policy";
    this.what.textContent = found.length
      ? `${found.length} can stand here, in ${where}` : `Nothing is known to stand here, in ${where}`;
    this.choices.replaceChildren(...found.map((each) => this.choice(each, typed)));
    this.panel.hidden = false;
    this.choices.querySelector("button")?.focus();
  }

  choice({ insert, says, ofValue }, typed) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const name = document.createElement("code");
    button.type = "button";
    name.textContent = insert;
    button.append(name, says || "");
    button.addEventListener("click", () => {
      const end = this.text.selectionStart;
      this.text.focus();
      this.text.setSelectionRange(end - typed.length, end);
      this.insert(ofValue ? insert : `${insert}: `);
    });
    item.append(button);
    return item;
  }

  // The keys that lead to where the caret stands, what is typed there, and whether it is a value.
  position() {
    const before = this.text.value.slice(0, this.text.selectionStart).split("\n");
    const line = before.pop();
    const [, blanks, dashes, rest] = /^(\s*)((?:- +)*)(.*)$/.exec(line);
    let depth = blanks.length + dashes.length;
    const path = [];
    if (dashes) path.unshift("-");
    let level = dashes ? blanks.length : depth;
    for (const above of before.reverse()) {
      const parts = /^(\s*)((?:- +)*)(?:"([^"]+)"|'([^']+)'|([^\s#:]+(?::[^\s:]+)*))\s*:(?:\s|$)/.exec(above);
      if (!parts || level === 0) continue;
      const begin = parts[1].length;
      const at = begin + parts[2].length;
      const key = parts[3] ?? parts[4] ?? parts[5];
      if (parts[2] && at === depth && path[0] !== "-") {
        path.unshift("-");
        level = begin;
        depth = begin;
      } else if (at < level || (path[0] === "-" && at <= level && !parts[2])) {
        path.unshift(key);
        level = at;
        depth = at;
        if (parts[2]) { path.unshift("-"); level = begin; depth = begin; }
      }
    }
    const pair = /^(?:"([^"]+)"|'([^']+)'|([^\s#:]+(?::[^\s:]+)*))\s*:\s+(.*)$/.exec(rest);
    if (!pair) return { path, typed: rest, ofValue: false };
    return { path: [...path, pair[1] ?? pair[2] ?? pair[3]], typed: pair[4], ofValue: true };
  }

  suggestions(path, ofValue) {
    let places = [this.schema];
    for (const step of path) places = places.flatMap((each) => this.below(each, step));
    const found = new Map();
    for (const place of places.flatMap((each) => this.forms(each))) {
      if (ofValue || place.enum || place.const) {
        const values = place.enum ?? (place.const !== undefined ? [place.const] : []);
        const known = place.type === "boolean" ? [true, false] : values;
        for (const value of known) {
          const says = place.description;
          found.set(`${value}`, { insert: `${value}`, says, ofValue: true });
        }
      }
      if (ofValue) continue;
      for (const [name, content] of Object.entries(place.properties ?? {})) {
        const says = content.description ?? this.forms(content)[0]?.description;
        found.set(name, { insert: name, says, ofValue: false });
      }
    }
    return [...found.values()];
  }

  below(place, step) {
    return this.forms(place).flatMap((form) => {
      if (step === "-") return form.items ? [form.items] : [];
      if (form.properties?.[step]) return [form.properties[step]];
      return typeof form.additionalProperties === "object" ? [form.additionalProperties] : [];
    });
  }

  // What a place of the schema may be, references and alternatives resolved.
  forms(place) {
    if (place.$ref) {
      const name = place.$ref.split("/").pop();
      return this.forms(this.schema.$defs[name]);
    }
    const ways = [...(place.anyOf ?? []), ...(place.oneOf ?? []), ...(place.allOf ?? [])];
    return ways.length ? [place, ...ways.flatMap((each) => this.forms(each))] : [place];
  }
}

const followed = document.querySelector("[data-follow]");
if (followed) follow(followed);
const form = document.getElementById("editor");
if (form) new Editor(form);
