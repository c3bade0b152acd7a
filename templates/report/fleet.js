(function () {
  var body = document.body, made = Number(body.dataset.made), late = Number(body.dataset.late);
  function look() {
    var age = Math.round(Date.now() / 1000 - made);
    document.getElementById("age").textContent = age + " s ago";
    body.classList.toggle("stale", Math.abs(age) > late);
  }
  look();
  setInterval(look, 1000);
})();
