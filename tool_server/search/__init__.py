"""Visual search in the role of V*'s: an open-vocabulary detector looks through an image, patch by patch."""
