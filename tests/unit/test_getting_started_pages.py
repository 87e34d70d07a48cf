"""docs/getting-started.md and its Chinese page say the same, and name what is there. tests/serve and the suite run them."""

import re

import pytest
from helpers.pages import CHINESE, ENGLISH, ROOT, commands, sections, without_blocks


def test_both_pages_have_the_same_commands():
    assert len(commands(ENGLISH)) > 40
    assert commands(ENGLISH) == commands(CHINESE)


def test_both_pages_have_the_same_shape():
    english, chinese = (without_blocks(page.read_text()) for page in (ENGLISH, CHINESE))
    assert len(sections(ENGLISH)) == len(sections(CHINESE))
    for pattern in (r"^[|*] |^\d\. ", r"`[^`]+`"):
        assert len(re.findall(pattern, english, flags=re.M)) == len(
            re.findall(pattern, chinese, flags=re.M)
        ), pattern

    def links(text: str, prefix: str) -> list[str]:
        return [link.removeprefix(prefix) for link in re.findall(r"\]\((?!zh/|\.\./getting)([^)]+)\)", text)]

    assert links(english, "") == links(chinese, "../")


def test_the_chinese_page_is_chinese():
    """A line of prose without a Chinese character has been forgotten."""
    for line in without_blocks(CHINESE.read_text()).splitlines():
        if len(line) > 20 and not line.startswith(("| ---", "[English]")):
            assert re.search(r"[\u4e00-\u9fff]", line), line


@pytest.mark.parametrize("language", ["c", "go", "flask", "node", "java"])
def test_each_language_has_a_program_with_and_without_a_dockerfile(language):
    folder = ROOT / "docs" / "examples" / language
    assert (folder / "Dockerfile").exists() and len(list(folder.iterdir())) >= 2
    given = [one.text for one in commands(ENGLISH)]
    assert any(text.endswith(f"docs/examples/{language}") and "podman build" in text for text in given)
    assert any(re.search(rf"runenv.py pack \w+ \S+ build/images/{language}$", text) for text in given)
    outputs = [one.output for one in commands(ENGLISH) if f"//{language}.default" in one.text]
    assert [output.rpartition(" ")[2] for output in outputs] == [f"{language}-00001", f"{language}-00002"]


def test_the_function_takes_five_commands():
    numbers = [one.section for one in commands(ENGLISH)]
    assert sections(ENGLISH)[1] == "Five commands" and numbers.count(1) == 5


def test_dockerfiles_name_base_images_of_the_table_and_no_registry():
    text = (ROOT / "tools" / "runenv.py").read_text()
    for path in (ROOT / "docs" / "examples").glob("*/Dockerfile"):
        for name in re.findall(r"^FROM (\S+)", path.read_text(), flags=re.M):
            assert name.startswith("localhost/runenv/") and f'"{name.rpartition("/")[2]}": Base(' in text, (
                path
            )
