//! Reads the labelled parts of a finding: `**File:** …`, `- Fix: …`, `影响：…`.

/// Meaning of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingField {
    File,
    Line,
    Severity,
    Problem,
    Impact,
    Fix,
    Status,
    Category,
    Confidence,
}

/// Splits a labelled line into the meaning of its label and the text after it.
pub(super) fn labelled(line: &str) -> Option<(FindingField, &str)> {
    let (label, value) = split_label(line)?;
    Some((field_of(label)?, value))
}

/// Returns whether a whole line is only a label.
pub(super) fn is_label(text: &str) -> bool {
    field_of(text.trim_end_matches([':', '：', ' ', '*'])).is_some()
}

/// Maximum length of a label; a longer text before a colon is a sentence.
const LABEL_BYTES_MAX: usize = 60;

/// Returns whether a label in lower case means the severity.
pub(super) fn is_severity_label(label: &str) -> bool {
    field_of(label) == Some(FindingField::Severity)
}

/// Splits a line with several labels, `Severity: high | File: a.rs:3`; returns the whole line if
/// one of its parts has no label.
fn labelled_parts(line: &str) -> Vec<&str> {
    for bar in [" | ", " · ", " • "] {
        let parts: Vec<&str> = line.split(bar).take(LABELS_MAX + 1).collect();
        if (2..=LABELS_MAX).contains(&parts.len())
            && parts
                .iter()
                .all(|part| labelled(part.trim_start_matches(['-', '|', ' '])).is_some())
        {
            return parts;
        }
    }
    vec![line]
}

/// Maximum number of labels on one line.
const LABELS_MAX: usize = 8;

/// Splits `Label: value` with any emphasis around it. The label has at most five words.
pub(super) fn split_label(line: &str) -> Option<(&str, &str)> {
    let bare = line.trim().trim_start_matches(['*', '_', '`', ' ']);
    // Only the beginning can be a label, and callers pass whole documents.
    let head = crate::clean::prefix(bare, LABEL_BYTES_MAX);
    let at = head.find([':', '：']).filter(|&at| at > 0)?;
    let label = bare[..at].trim_matches(['*', '_', '`', ' ']);
    let colon = bare[at..].chars().next().map_or(1, char::len_utf8);
    let value = bare[at + colon..].trim_start_matches(['*', '_']).trim();
    let plain = !label.is_empty()
        && label.split_whitespace().count() <= 5
        && !label.contains(['[', '(', '/', '\\'])
        || label.contains(" / ");
    plain.then_some((label, value))
}

fn field_of(label: &str) -> Option<FindingField> {
    let folded = label.to_lowercase();
    folded.split(" / ").find_map(|part| {
        one_label(
            part.trim()
                .trim_matches(['*', '_', '`', '🔧', '💡', '✅', ' ']),
        )
    })
}

fn one_label(label: &str) -> Option<FindingField> {
    let field =
        match label {
            "file" | "files" | "location" | "locations" | "where" | "path" | "paths"
            | "file(s)" | "affected file" | "affected files" | "file:line" | "files affected"
            | "source" | "module" | "code location" | "文件" | "位置" | "archivo" | "archivos"
            | "arquivo" | "arquivos" | "fichier" | "datei" | "ubicación" | "ファイル"
            | "file path" => FindingField::File,
            "line" | "lines" | "line(s)" | "line number" | "line numbers" | "行号" | "行"
            | "línea" | "linha" | "zeile" => FindingField::Line,
            "severity" | "priority" | "level" | "risk level" | "severity level" | "importance"
            | "criticality" | "severity rating" | "sev" => FindingField::Severity,
            label if SEVERITY_LABELS.contains(&label) => FindingField::Severity,
            "problem"
            | "issue"
            | "description"
            | "what"
            | "details"
            | "detail"
            | "observation"
            | "gap"
            | "finding"
            | "evidence"
            | "explanation"
            | "reality"
            | "root cause"
            | "problem description"
            | "what happens"
            | "bug"
            | "analysis"
            | "current"
            | "current behavior"
            | "current code"
            | "issue description"
            | "问题"
            | "描述"
            | "问题描述"
            | "原因"
            | "problema"
            | "descripción"
            | "descrição"
            | "beschreibung"
            | "comment"
            | "summary"
            | "context"
            | "note"
            | "notes"
            | "clarification"
            | "artifact"
            | "rationale"
            | "reason"
            | "reasoning" => FindingField::Problem,
            "impact" | "risk" | "risks" | "why it matters" | "why this matters" | "why"
            | "consequence" | "consequences" | "failure scenario" | "scenario" | "effect"
            | "attack scenario" | "exploit scenario" | "ac impact" | "影响" | "impacto"
            | "auswirkung" | "风险" | "what breaks" => FindingField::Impact,
            "fix" | "suggestion" | "suggestions" | "recommendation" | "recommendations"
            | "suggested fix" | "proposed fix" | "solution" | "remediation" | "action"
            | "required action" | "fix required" | "how to fix" | "resolution" | "minimal fix"
            | "safe path" | "fix applied" | "suggested work" | "required fix"
            | "recommended fix" | "proposed solution" | "action required" | "修复建议" | "修复"
            | "建议" | "修复措施" | "sửa" | "recomendación" | "recomendação" | "solución"
            | "empfehlung" | "required change" | "required changes" | "suggested change"
            | "ask" | "mitigation" => FindingField::Fix,
            "status" | "state" | "resolution status" | "状态" | "estado" => FindingField::Status,
            "category" | "type" | "dimension" | "kind" | "area" | "类别" | "类型" | "categoría"
            | "categoria" => FindingField::Category,
            "confidence" | "confidence score" => FindingField::Confidence,
            _ => return None,
        };
    Some(field)
}

/// Labels for the severity in other languages.
const SEVERITY_LABELS: [&str; 94] = [
    "严重程度",
    "严重性",
    "严重级别",
    "严重等级",
    "严重度",
    "优先级",
    "级别",
    "等级",
    "风险等级",
    "风险级别",
    "嚴重程度",
    "嚴重性",
    "嚴重度",
    "嚴重等級",
    "優先級",
    "優先順序",
    "等級",
    "風險等級",
    "重大度",
    "深刻度",
    "重要度",
    "優先度",
    "緊急度",
    "影響度",
    "レベル",
    "深刻さ",
    "優先順位",
    "심각도",
    "중요도",
    "우선순위",
    "심각성",
    "등급",
    "위험도",
    "긴급도",
    "schweregrad",
    "schwere",
    "priorität",
    "wichtigkeit",
    "stufe",
    "kritikalität",
    "gravité",
    "sévérité",
    "priorité",
    "criticité",
    "niveau",
    "niveau de gravité",
    "niveau de sévérité",
    "importance relative",
    "severidad",
    "gravedad",
    "prioridad",
    "criticidad",
    "nivel",
    "nivel de severidad",
    "nivel de gravedad",
    "severidade",
    "gravidade",
    "prioridade",
    "criticidade",
    "nível",
    "nível de severidade",
    "gravità",
    "severità",
    "priorità",
    "livello",
    "criticità",
    "ernst",
    "prioriteit",
    "ważność",
    "priorytet",
    "poziom",
    "waga",
    "závažnost",
    "priorita",
    "серьёзность",
    "серьезность",
    "критичность",
    "приоритет",
    "уровень",
    "важность",
    "уровень серьёзности",
    "уровень критичности",
    "серйозність",
    "критичність",
    "пріоритет",
    "önem",
    "önem derecesi",
    "öncelik",
    "ciddiyet",
    "allvarlighetsgrad",
    "mức độ",
    "mức độ nghiêm trọng",
    "गंभीरता",
    "الخطورة",
];

/// Labelled parts of a finding's text; text without a label is the problem.
#[derive(Clone, Debug, Default)]
pub(super) struct FindingFields {
    pub file: Option<String>,
    pub line: Option<String>,
    pub severity: Option<String>,
    pub problem: String,
    /// Whether the problem had its own label.
    pub names_problem: bool,
    pub impact: Option<String>,
    pub fix: Option<String>,
    pub status: Option<String>,
    pub category: Option<String>,
    pub confidence: Option<String>,
}

impl FindingFields {
    /// Adds one block of the finding's text; recognises labels at the start of its lines.
    pub fn add(&mut self, text: &str) {
        let mut current = FindingField::Problem;
        for line in text.lines().flat_map(labelled_parts) {
            match labelled(line.trim_start_matches(['-', '*', '•', ' ']).trim_start())
                .or_else(|| labelled(line))
            {
                Some((field, value)) => {
                    self.names_problem |= field == FindingField::Problem;
                    current = field;
                    self.put(field, value);
                }
                None => self.put(current, line.trim()),
            }
        }
    }

    /// Adds text under a heading; the heading may be a label.
    pub fn add_under(&mut self, heading: &str, text: &str) {
        if let Some(field) = field_of(heading.trim_end_matches([':', '：', ' '])) {
            for line in text.lines() {
                self.put(field, line.trim());
            }
        } else {
            self.put(FindingField::Problem, heading);
            self.add(text);
        }
    }

    fn put(&mut self, field: FindingField, text: &str) {
        let slot = match field {
            FindingField::Problem => {
                join(&mut self.problem, text);
                return;
            }
            FindingField::File => &mut self.file,
            FindingField::Line => &mut self.line,
            FindingField::Severity => &mut self.severity,
            FindingField::Impact => &mut self.impact,
            FindingField::Fix => &mut self.fix,
            FindingField::Status => &mut self.status,
            FindingField::Category => &mut self.category,
            FindingField::Confidence => &mut self.confidence,
        };
        join(slot.get_or_insert_default(), text);
    }

    /// Returns whether a labelled location names a file.
    pub fn is_located(&self) -> bool {
        self.file
            .as_deref()
            .is_some_and(|file| super::locations::parse_location_field(file).file.is_some())
    }

    /// Returns whether the text has a label that only findings have.
    pub fn is_telling(&self) -> bool {
        self.file.is_some()
            || self.fix.is_some()
            || self.impact.is_some()
            || self.severity.is_some()
            || self.line.is_some()
    }
}

fn join(into: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    if !into.is_empty() {
        into.push('\n');
    }
    into.push_str(text);
}
