"""What may be where a file belongs, and is none. Each function puts it there."""

import os


def folder(path):
    path.mkdir()


def folder_of_others(path):
    path.mkdir()
    (path / "theirs").write_text("theirs")


def dangling_link(path):
    path.symlink_to(path.parent / "nowhere")


def link_to_itself(path):
    path.symlink_to(path)


def link_to_a_folder(path):
    path.symlink_to(path.parent)


def pipe(path):
    os.mkfifo(path)


NO_FILES = [folder, folder_of_others, dangling_link, link_to_itself, link_to_a_folder, pipe]
