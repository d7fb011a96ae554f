"""Crops against the boxes of an item's label: overlap and search length, in the first image's pixels."""

from __future__ import annotations

import pytest
from helpers.trajectories import png

from orchestrator.tools.search import regions, search_facts
from orchestrator.tools.types import Picture

IMAGE = Picture(png(200, 100))


def crop(source, *box, size=(200, 100)):
    return Picture(b"", source=source, box=box, source_size=size)


def test_a_crop_of_a_crop_has_its_place_in_the_first_image():
    pictures = [IMAGE, crop(0, 100, 0, 200, 100), crop(1, 200, 200, 400, 400, size=(400, 400))]
    assert regions(pictures) == [(100, 0, 200, 100), (150, 50, 200, 100)]


def test_overlap_is_the_best_and_length_the_first_crop_with_the_middle():
    pictures = [IMAGE, crop(0, 0, 0, 50, 50), crop(0, 100, 0, 140, 40)]
    assert search_facts({"box": "100,0,20,20"}, pictures) == {"iou": 0.25, "search_length": 2}
    assert search_facts({"box": "100,0,20,20; 0,0,10,10"}, pictures) == {"iou": 0.25, "search_length": 1.5}


def test_what_is_not_found_is_one_longer_than_the_search():
    assert search_facts({"box": "180,80,9,9"}, [IMAGE, crop(0, 0, 0, 50, 50)]) == {"iou": 0, "search_length": 2}
    assert search_facts({"box": "180,80,9,9"}, [IMAGE]) == {"iou": 0, "search_length": 1}


@pytest.mark.parametrize("labels", [{}, {"box": ""}, {"box": "red"}, {"box": "1,2,3"}])
def test_without_boxes_there_are_no_facts(labels):
    assert search_facts(labels, [IMAGE, crop(0, 0, 0, 50, 50)]) == {}


def test_images_that_are_no_crops_have_no_place():
    pictures = [IMAGE, Picture(png(9, 9), source=0), crop(1, 0, 0, 4, 4), Picture(png(9, 9)), crop(3, 0, 0, 4, 4)]
    assert regions(pictures) == []
