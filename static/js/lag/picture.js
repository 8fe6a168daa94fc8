// A chart as PNG: plotly draws it as SVG, the browser paints it; nothing is sent anywhere.

import { toast } from "../ui/toast.js";
import { CONFIG } from "./plotly-config.js";
import { ink } from "./ink.js";

const SCALE = 2;

export async function savePicture(panel) {
  const page = panel.page;
  const { data, layout } = panel.figure(page, { labelled: true });
  const width = layout.width, height = layout.height + 48;
  const title = { text: `${panel.chart.title} · ${page.slotWords}`, x: 0, xref: "paper", font: { size: 13, color: ink("text") }, automargin: false, y: 0.96, yanchor: "top" };
  const picture = {
    data: data.map((trace) => ({ ...trace, showlegend: trace.mode === "lines" && Boolean(trace.meta) && !trace.meta.hatched })),
    layout: { ...layout, height, title, paper_bgcolor: ink("surface"), margin: { ...layout.margin, t: 48 },
      showlegend: true, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" } },
    config: CONFIG,
  };
  try {
    const svg = await window.Plotly.toImage(picture, { format: "svg", width, height });
    const image = new Image();
    image.src = svg;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * SCALE;
    canvas.height = height * SCALE;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${page.slotWords.replaceAll(/[^\w.-]+/g, "-")}-${panel.key}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch {
    toast("The image could not be created.", { symbol: "close" });
  }
}
