import "./tokens.css";
import "./page.css";
import "./parts/settings";
import { render } from "preact";
import { Page } from "./views/page";

const root = document.getElementById("page");
if (root) render(<Page />, root);
