import {init, use} from "echarts/core";
import {BarChart, CustomChart, HeatmapChart, LineChart, PieChart} from "echarts/charts";
import {
  AriaComponent, BrushComponent, CalendarComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent,
  TooltipComponent, VisualMapComponent,
} from "echarts/components";
import {SVGRenderer} from "echarts/renderers";

use([
  AriaComponent, BarChart, BrushComponent, CalendarComponent, CustomChart, DataZoomComponent, GridComponent, HeatmapChart,
  LegendComponent, LineChart, MarkLineComponent, PieChart, SVGRenderer, TooltipComponent, VisualMapComponent,
]);
export {init};
