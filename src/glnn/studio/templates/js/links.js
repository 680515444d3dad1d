// How the page reaches its session: over HTTP in a browser, over a widget's messages in a notebook.
// Both offer act(message), map() and labels() as promises, and listen(heard, failed) for news.
const PAUSE_MS = 2000;

function makeHttpLink(token) {
  async function ask(path, options = {}) {
    const headers = { "x-glnn-token": token, "content-type": "application/json" };
    let answer;
    try {
      answer = await fetch(path, { ...options, headers });
    } catch {
      throw new Error("The studio does not answer. All labels so far are kept; start glnn studio again and open the address that it prints.");
    }
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({ error: `The studio answers with status ${answer.status}.` }));
    throw new Error(error);
  }

  async function listen(heard, failed) {
    let known = "";
    for (;;) {
      try {
        const { news } = await (await ask(`news?after=${known}`)).json();
        if (String(news) !== known) await heard();
        known = String(news);
      } catch (error) {
        failed(error);
        await new Promise((done) => { setTimeout(done, PAUSE_MS); });
      }
    }
  }

  return {
    act: async (message) => (await ask("act", { method: "POST", body: JSON.stringify(message) })).json(),
    map: async () => (await ask("map")).text(),
    labels: async () => (await ask("labels.csv")).text(),
    listen,
  };
}

function makeWidgetLink(model) {
  const waiting = new Map();
  let [count, hear] = [0, () => {}];
  const take = ({ number, answer, error }) => {
    if (number === undefined) {
      hear();
      return;
    }
    const { done, fail } = waiting.get(number) ?? {};
    waiting.delete(number);
    if (error) fail?.(new Error(error));
    else done?.(answer);
  };
  const ask = (want, message) => new Promise((done, fail) => {
    count += 1;
    waiting.set(count, { done, fail });
    model.send({ number: count, want, message });
  });
  model.on("msg:custom", take);
  return {
    act: (message) => ask("act", message),
    map: () => ask("map"),
    labels: () => ask("labels"),
    listen: (heard, failed) => { hear = () => heard().catch(failed); hear(); },
    end: () => model.off("msg:custom", take),
  };
}
