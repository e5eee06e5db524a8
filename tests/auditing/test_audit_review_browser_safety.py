"""Facts about hostile content in a real browser: it stays text, in the page and in the file, and nothing else runs."""

import re

from fake_report import HOSTILE, hostile_report
from review_pages import decided_in, downloaded, entries, expected, press, until, without_time

from propml.auditing.decisions import read_decisions


def test_hostile_content_stays_text(opened, hostile_address):
    page = opened(url=hostile_address)
    report = hostile_report()
    page.click("#all")
    found = entries(page)
    assert sorted(found) == sorted(expected(report, lambda *row: True))
    assert page.title() == page.inner_text("h1") == HOSTILE[0]
    page.click("#open-about")
    press(page, ["Escape", " ", "Enter"])
    strangers = "script:not(#data), svg, iframe, object, a, img:not(.picture, #more-picture)"
    assert page.eval_on_selector_all(strangers, "all => all.map(each => each.outerHTML.slice(0, 22))") == [
        '<script>"use strict";\n'
    ]
    press(page, ["Escape"])
    page.fill("#search", "</script><img")
    assert all(HOSTILE[1] in item + label for item, label, _ in entries(page))
    assert len(entries(page)) >= 2


def test_hostile_content_is_neutralised_in_the_download_and_comes_back(opened, hostile_address, tmp_path):
    page = opened(url=hostile_address)
    page.click("#all")
    found = entries(page)
    press(page, "kd" * (len(found) // 2))
    path = downloaded(page, tmp_path)
    text = path.read_bytes().decode("utf-8-sig")
    # A spreadsheet sees cells after commas, line ends and quotes.
    assert not re.search(r'(?:^|[,\n])"?(?:[=+@\t＝＋－＠]|\r(?!\n))', text)
    assert not re.search(r'(?:^|[,\n])"?-(?![\d.,]+["\r\n,])', text)
    read = read_decisions(path)
    assert without_time(read) == without_time(decided_in(found, "kd" * len(found)))
    other = opened(url=hostile_address)
    other.set_input_files("#file", path)
    until(other, "document.querySelector('#toast').textContent.startsWith('Loaded')")
    again = read_decisions(downloaded(other, tmp_path))
    assert without_time(again) == without_time(read)


def test_the_browser_refuses_scripts_and_addresses_that_are_not_the_page_s(chromium, address):
    page = chromium.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(address)
    told = page.evaluate(
        """async () => {
             const refused = [];
             try { document.body.innerHTML = "<i>markup</i>"; } catch (error) { refused.push(error.name); }
             const script = document.createElement("script");
             try { script.text = "window.injected = true"; } catch (error) { refused.push(error.name); }
             script.append("window.injected = true");
             document.body.append(script);
             const image = new Image();
             const failed = new Promise((done) => {
               image.onerror = () => done("image");
               image.onload = () => done("");
             });
             image.src = "https://example.com/x.png";
             refused.push(await failed);
             try { await fetch("https://example.com/"); } catch (error) { refused.push(error.name); }
             return [refused, window.injected ?? null];
           }"""
    )
    page.close()
    assert told == [["TypeError", "TypeError", "image", "TypeError"], None]
    assert any("Content Security Policy" in text for text in refused)
