"""Visual search like that of V*: an open-vocabulary detector searches an image patch by patch."""
