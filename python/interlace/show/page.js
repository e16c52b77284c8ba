(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var font = getComputedStyle(document.body).fontFamily;
  function axis(given) {
    var common = { gridcolor: "#e4e7eb", zerolinecolor: "#b9bec6", linecolor: "#b9bec6",
      fixedrange: narrow(), automargin: true };
    return Object.assign(common, given);
  }
  function narrow() { return window.innerWidth < 600; }
  function layout(figure) {
    var given = figure.layout;
    return Object.assign({ height: 380 }, given, {
      font: { family: font, size: 13, color: "#1b1f24" },
      margin: { l: 10, r: 12, t: 10, b: 10 },
      paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom",
        traceorder: "normal", font: { size: 13 } },
      dragmode: narrow() ? false : "zoom",
      hoverlabel: { font: { family: font } },
      xaxis: axis(given.xaxis), yaxis: axis(given.yaxis)
    });
  }
  figures.forEach(function (figure) {
    Plotly.newPlot(figure.id, figure.data, layout(figure),
      { responsive: true, displayModeBar: false });
  });
})();
