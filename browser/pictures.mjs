// Pictures of every page in both themes and three widths, to look at.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { logIn, PAGES } from "./checks.mjs";

export async function takePictures(browser, scene, directory) {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  let wide = 0;
  for (const theme of ["light", "dark"]) {
    for (const width of [390, 1024, 1440]) {
      const { context, page } = await logIn(browser, scene, { colorScheme: theme, viewport: { width, height: 900 } });
      for (const [name, path] of Object.entries(PAGES)) {
        await page.goto(scene.url + path);
        const more = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (more > 0) { wide += 1; console.log(`FAILED  ${name} is ${more} px too wide at ${width} px`); }
        await page.screenshot({ path: join(directory, `${name}-${theme}-${width}.png`) });
      }
      await context.close();
    }
  }
  console.log(`pictures of ${Object.keys(PAGES).length} pages in ${directory}`);
  return wide;
}
