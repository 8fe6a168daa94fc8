// What every chart is given.

export const CONFIG = {
  staticPlot: true, displayModeBar: false, responsive: false, typesetMath: false,
  // Nothing of a chart ever leaves for plotly's cloud.
  showSendToCloud: false, plotlyServerURL: "", showLink: false, showEditInChartStudio: false,
};
