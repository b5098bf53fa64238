"use strict";

// Beside each link that saves a picture as SVG, one that saves it as PNG: drawn here, at twice its size.
async function save(link) {
  const picture = new Image();
  picture.src = link.href;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * picture.width;
  canvas.height = 2 * picture.height;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((png) => {
    const saved = document.createElement("a");
    saved.href = URL.createObjectURL(png);
    saved.download = link.download.replace(/svg$/, "png");
    saved.click();
  });
}

for (const link of document.querySelectorAll("a[download$='.svg']")) {
  const png = document.createElement("a");
  png.href = "#";
  png.textContent = "PNG";
  png.addEventListener("click", (event) => {
    event.preventDefault();
    save(link);
  });
  link.before(png);
}
