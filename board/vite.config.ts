// Builds one page with everything inside: `src/weft/board/page.html` of the repository.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import type { Plugin, Rollup } from "vite";
import { defineConfig } from "vite";

const here = import.meta.dirname;
const SOURCES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src"];

/** The hash of all sources, which `tests/board` compares with the one in the built page. */
function hashOfSources(): string {
  const files = SOURCES.flatMap((name) => listed(join(here, name))).map((path) => relative(here, path));
  const hash = createHash("sha256");
  for (const name of files.sort()) {
    hash.update(name + "\0");
    hash.update(readFileSync(join(here, name)));
  }
  return hash.digest("hex");
}

function listed(path: string): string[] {
  return statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => listed(join(path, name))) : [path];
}

const sha = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Puts script and style into the page, and a policy that lets nothing else run. */
function onePage(): Plugin {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_options, bundle) {
      const files = Object.values(bundle);
      const script = files.find((file): file is Rollup.OutputChunk => file.type === "chunk")!;
      const style = files.find((file): file is Rollup.OutputAsset => file.fileName.endsWith(".css"))!;
      const page = files.find((file): file is Rollup.OutputAsset => file.fileName.endsWith(".html"))!;
      const code = `\n${script.code.replaceAll("</script", "<\\/script")}`;
      const css = String(style.source);
      const policy = [
        "default-src 'none'",
        `script-src ${sha(code)}`,
        `style-src ${sha(css)}`,
        "connect-src 'self'",
        "worker-src blob:",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      page.source = String(page.source)
        .replace(/<script type="module"[^>]*><\/script>\s*/, "")
        .replace(/<link rel="stylesheet"[^>]*>\s*/, "")
        .replace("<!--policy-->", `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
        .replace("<!--sources-->", `<meta name="sources" content="${hashOfSources()}">`)
        .replace("<!--style-->", () => `<style>${css}</style>`)
        .replace("<!--script-->", () => `<script type="module">${code}</script>`);
      for (const [name, file] of Object.entries(bundle)) if (file !== page) delete bundle[name];
      page.fileName = "page.html";
    },
  };
}

export default defineConfig({
  root: here,
  base: "./",
  plugins: [onePage()],
  build: {
    outDir: resolve(here, "../src/weft/board"),
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    reportCompressedSize: false,
  },
  worker: { format: "iife" },
});
