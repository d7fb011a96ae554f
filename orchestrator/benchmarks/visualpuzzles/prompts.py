"""The texts of VisualPuzzles, exact to the last blank."""

from __future__ import annotations

from collections.abc import Sequence

COT = (
    "Solve the multiple-choice question and then answer with the option letter from the given choices. "
    "The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) "
    "where LETTER is one of options. Think step by step before answering."
)
DIRECT = "Answer the question with the option's letter from the given choices directly."

STAGE_1 = {
    "algorithmic": """\
You are given an algorithmic reasoning puzzle. Analyze the puzzle and create a helpful visualization.

{question}

Your task:
1. Identify any numerical sequences, patterns, or computational rules in the puzzle
2. Create a diagram that clearly shows:
   - The step-by-step computation or transformation process
   - Arrows or annotations showing how numbers/symbols change
   - The mathematical relationship or formula discovered
   - Highlighted patterns (e.g., +2, ×3, alternating, etc.)
3. Label each step of the algorithm clearly

Generate a clear diagram that reveals the underlying algorithmic pattern.""",
    "analogical": """\
You are given an analogical reasoning puzzle (A is to B as C is to ?).

{question}

Your task:
1. Identify the transformation relationship between the first pair of elements
2. Create a diagram that clearly shows:
   - What changes occur (rotation, reflection, color change, size change, addition/removal of elements)
   - Arrows indicating the direction and type of transformation
   - Labels describing each transformation (e.g., "rotate 90°", "invert colors", "add dot")
   - Apply the same transformation to show what the answer should look like
3. Make the analogy relationship visually explicit

Generate a diagram that reveals the transformation pattern between pairs.""",
    "deductive": """\
You are given a deductive reasoning puzzle that requires logical inference.

{question}

Your task:
1. Identify the given premises, rules, or constraints in the puzzle
2. Create a diagram that clearly shows:
   - All given conditions/rules listed clearly
   - A logical flowchart or inference chain
   - Step-by-step deduction from premises to conclusion
   - Elimination of incorrect possibilities
   - The logical path leading to the answer
3. Use arrows to show the deduction flow

Generate a logical inference diagram that traces the reasoning path.""",
    "inductive": """\
You are given an inductive reasoning puzzle that requires pattern recognition.

{question}

Your task:
1. Observe the sequence of examples and identify the underlying pattern
2. Create a diagram that clearly shows:
   - The repeating elements or motifs highlighted/circled
   - The progression rule (what changes from one step to the next)
   - Annotations showing the pattern cycle or growth rule
   - A prediction of what comes next based on the pattern
   - Color-coding or numbering to show pattern repetition
3. Make the inductive pattern visually obvious

Generate a diagram that highlights the repeating pattern and predicts the next element.""",
    "spatial": """\
You are given a spatial reasoning puzzle involving 3D visualization or transformations.

{question}

Your task:
1. Analyze the spatial transformation required (rotation, folding, unfolding, different viewpoint)
2. Create a diagram that clearly shows:
   - The object from multiple angles if rotation is involved
   - Step-by-step folding/unfolding process if applicable
   - Arrows indicating rotation direction and degree
   - Reference points or markers to track orientation
   - The resulting shape after transformation
3. Add axis lines or reference frames to clarify spatial orientation

Generate a multi-view or step-by-step transformation diagram.""",
}
"""What is asked for the auxiliary diagram, by category."""

STAGE_2 = """\
{question}

You are given TWO images:
1) ORIGINAL PUZZLE: The {category} reasoning puzzle
2) AUXILIARY DIAGRAM: {diagram}

{use}
Answer with the option letter (A, B, C, or D) directly."""

DIAGRAM = {
    "algorithmic": "A visualization showing the computational pattern and steps",
    "analogical": "A visualization showing the transformation relationship",
    "deductive": "A logical inference diagram showing the deduction steps",
    "inductive": "A visualization highlighting the pattern and its progression",
    "spatial": "A visualization showing the spatial transformation from multiple views",
}
USE = {
    "algorithmic": "Use the auxiliary diagram to understand the algorithm, then select the correct answer.",
    "analogical": "Use the auxiliary diagram to understand how A transforms to B, apply the same rule to C, "
    "then select the correct answer.",
    "deductive": "Follow the logical chain in the auxiliary diagram to reach the conclusion, "
    "then select the correct answer.",
    "inductive": "Use the auxiliary diagram to understand the pattern rule, "
    "then select the answer that continues the pattern correctly.",
    "spatial": "Use the auxiliary diagram to mentally trace the transformation, then select the correct answer.",
}

CATEGORIES = tuple(STAGE_1)


def question_block(question: str, options: Sequence[str] | None) -> str:
    """Returns the question with its options; null options are drawn in the image."""
    if options:
        listed = "\n".join(f"({letter}) {option}" for letter, option in zip("ABCD", options, strict=False))
        return f"Question: {question.strip()}\nOptions:\n{listed}"
    return f"Question: {question.strip()}\nOptions: Choose from (A) (B) (C) (D) in the image."


def stage_1(block: str, category: str) -> str:
    """Returns the request for an auxiliary diagram."""
    # Not str.format: a question may hold braces.
    return STAGE_1[category].replace("{question}", block)


def stage_2(block: str, category: str) -> str:
    """Returns the question to be answered from puzzle and diagram."""
    text = STAGE_2.replace("{category}", category).replace("{diagram}", DIAGRAM[category])
    return text.replace("{use}", USE[category]).replace("{question}", block)
