//! Builds the SQL of paged lists for both databases. Newest first; each page continues below the
//! last number of the previous page, so new rows never shift it.

use crate::job::JobQuery;
use crate::record::{Page, Paged, TicketOrder, TicketQuery, TicketSort};

/// Maximum rows per page.
const PAGE_MAX: u32 = 1000;

#[derive(Clone, Debug)]
pub(crate) enum Bind {
    Text(String),
    Number(i64),
}

#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind>,
    most: usize,
    /// Whether the next page can continue from the last number of this one.
    goes_on: bool,
}

impl Listing {
    /// Lists tickets. `mark` is `?` on `SQLite` and `$` on `PostgreSQL`.
    pub(crate) fn tickets(columns: &str, query: &TicketQuery, page: &Page, mark: char) -> Self {
        let order = query.order;
        let first = if order.ascending { i64::MIN } else { i64::MAX };
        let mut list = ListingQuery::new(page, first, mark);
        let mut filter = list.beyond(order, query.after_value.filter(|_| page.after.is_some()));
        list.narrow_tickets(&mut filter, query);
        let from = format!("SELECT {columns} FROM tickets WHERE");
        let direction = if order.ascending { "ASC" } else { "DESC" };
        let order = match order.by {
            TicketSort::Created => format!("ORDER BY number {direction} LIMIT {mark}2"),
            // A list of several walks can be ordered by a column only, and not by its negation.
            TicketSort::Urgency => {
                let opposite = if order.ascending { "DESC" } else { "ASC" };
                format!("ORDER BY priority {opposite}, number {direction} LIMIT {mark}2")
            }
            by => {
                let column = by.column();
                format!("ORDER BY {column} {direction}, number {direction} LIMIT {mark}2")
            }
        };
        if query.stages.is_empty() {
            return list.done(format!("{from} {filter} {order}"));
        }
        // One short index walk per stage, then the newest rows of all walks. An IN list would first
        // collect every ticket of those stages.
        let mut walks = Vec::new();
        for stage in &query.stages {
            let mut stage_filter = filter.clone();
            list.narrow(&mut stage_filter, "stage", Some(&stage.as_str().to_owned()));
            let name = walks.len();
            walks.push(format!(
                "SELECT * FROM ({from} {stage_filter} {order}) AS walk{name}"
            ));
        }
        let walks = walks.join(" UNION ALL ");
        list.done(format!("{walks} {order}"))
    }

    /// Counts the tickets of a query by stage, whatever stages the query names.
    pub(crate) fn stage_counts(query: &TicketQuery, mark: char) -> Self {
        let mut list = ListingQuery {
            mark,
            binds: Vec::new(),
            most: usize::MAX,
        };
        let mut filter = "1 = 1".to_owned();
        list.narrow_tickets(&mut filter, query);
        list.done(format!(
            "SELECT stage, count(*) FROM tickets WHERE {filter} GROUP BY stage"
        ))
    }

    /// Lists jobs. `clock` is the database's expression for its time in milliseconds.
    pub(crate) fn jobs(
        columns: &str,
        query: &JobQuery,
        page: &Page,
        (mark, clock): (char, &str),
    ) -> Self {
        let mut list = ListingQuery::new(page, i64::MAX, mark);
        let mut filter = list.below("id");
        let queue = query.queue.as_ref().map(ToString::to_string);
        list.narrow(&mut filter, "queue", queue.as_ref());
        let ticket = query.ticket.as_ref().map(ToString::to_string);
        list.narrow(&mut filter, "ticket", ticket.as_ref());
        list.narrow(&mut filter, "key", query.key.as_ref());
        if query.lapsed {
            filter.extend([" AND state = 'leased' AND lease_until <= ", clock]);
        }
        let order = if query.urgent_first {
            "priority DESC, id"
        } else {
            "id DESC"
        };
        let last = format!("ORDER BY {order} LIMIT {mark}2");
        // States are in the SQL text, not bound: only then can the planner use the partial indexes.
        let states = match query.state {
            _ if query.claimable => vec![
                " AND state = 'ready'".to_owned(),
                format!(" AND state = 'waiting' AND not_before <= {clock}"),
                format!(" AND state = 'leased' AND NOT tracked AND lease_until <= {clock}"),
            ],
            Some(state) => vec![format!(" AND state = '{}'", state.word())],
            None => vec![String::new()],
        };
        let agents = match &query.agent {
            None => vec![String::new()],
            Some(agent) => {
                // One range each in the index of ready jobs, already in the order of claims.
                list.binds.push(Bind::Text(crate::rows::clean(agent)));
                let bound = format!("{mark}{}", list.binds.len());
                vec![
                    " AND agent = ''".to_owned(),
                    format!(" AND agent = {bound} AND {bound} <> ''"),
                ]
            }
        };
        let mut queues = Vec::new();
        for queue in &query.queues {
            list.binds
                .push(Bind::Text(crate::rows::clean(queue.name())));
            queues.push(format!(" AND queue = {mark}{}", list.binds.len()));
        }
        if queues.is_empty() {
            queues.push(String::new());
        }
        let mut walks = Vec::new();
        for queue in &queues {
            for state in &states {
                for agent in &agents {
                    walks.push(format!(
                        "SELECT {columns} FROM jobs WHERE {filter}{queue}{state}{agent} {last}"
                    ));
                }
            }
        }
        let sql = match walks.as_slice() {
            [one] => one.clone(),
            several => {
                let several = several.iter().enumerate();
                let walks = several.map(|(at, walk)| format!("SELECT * FROM ({walk}) AS walk{at}"));
                let walks: Vec<String> = walks.collect();
                format!("{} {last}", walks.join(" UNION ALL "))
            }
        };
        let mut list = list.done(sql);
        list.goes_on = !query.urgent_first;
        list
    }

    /// Builds the page from the fetched rows; one row more than the page holds means a next page.
    pub(crate) fn page<T>(&self, mut items: Vec<T>, number: impl Fn(&T) -> i64) -> Paged<T> {
        let more = items.len() > self.most && self.goes_on;
        items.truncate(self.most);
        let next = items.last().filter(|_| more).map(number);
        Paged { items, next }
    }
}

struct ListingQuery {
    mark: char,
    binds: Vec<Bind>,
    most: usize,
}

impl ListingQuery {
    /// Begins a query; `first` is the position of the first page.
    fn new(page: &Page, first: i64, mark: char) -> Self {
        let most = page.most.clamp(1, PAGE_MAX);
        Self {
            mark,
            binds: vec![
                Bind::Number(page.after.unwrap_or(first)),
                Bind::Number(i64::from(most) + 1),
            ],
            most: usize::try_from(most).unwrap_or(1),
        }
    }

    fn below(&self, column: &str) -> String {
        format!("{column} < {}1", self.mark)
    }

    /// Selects the rows beyond the last one of the previous page.
    fn beyond(&mut self, order: TicketOrder, value: Option<i64>) -> String {
        let mark = self.mark;
        let sign = if order.ascending { '>' } else { '<' };
        match value.filter(|_| order.by != TicketSort::Created) {
            None if order.by == TicketSort::Created => format!("number {sign} {mark}1"),
            // Every ticket has a number, so this is true; both databases want each bind used.
            None => format!("number <> {mark}1"),
            Some(value) => {
                self.binds.push(Bind::Number(value));
                let (column, place) = (order.by.column(), self.binds.len());
                // PostgreSQL would take the type of the column, which may be smaller than the bind.
                format!("({column}, number) {sign} (CAST({mark}{place} AS bigint), {mark}1)")
            }
        }
    }

    /// Adds all filters of a query but those by stage and page.
    fn narrow_tickets(&mut self, filter: &mut String, query: &TicketQuery) {
        let mark = self.mark;
        self.narrow(filter, "epic", query.epic.as_ref());
        self.narrow(filter, "repository", query.repository.as_ref());
        let only = query.only.as_ref().map(ToString::to_string);
        self.narrow(filter, "id", only.as_ref());
        if let Some(dependency) = &query.depends_on {
            let place = self.bind(dependency.to_string());
            let subquery = format!("SELECT dependant FROM dependencies WHERE dependency = {place}");
            // For an IN list PostgreSQL would walk all tickets by number.
            let (before, after) = match mark {
                '$' => (" AND id = ANY (ARRAY(", "))"),
                _ => (" AND id IN (", ")"),
            };
            filter.extend([before, subquery.as_str(), after]);
        }
        if let Some(prefix) = &query.id_prefix {
            let place = self.bind(crate::rows::clean(prefix));
            filter.extend([format!(" AND substr(id, 1, length({place})) = {place}")]);
        }
        for word in &query.words {
            // Both databases then lower A to Z and leave other letters as they are.
            let place = self.bind(crate::rows::clean(word).to_ascii_lowercase());
            let has = |column: &str| match mark {
                '$' => format!("strpos(lower({column} COLLATE \"C\"), {place}) > 0"),
                _ => format!("instr(lower({column}), {place}) > 0"),
            };
            let [id, title, epic] = ["id", "title", "coalesce(epic, '')"].map(has);
            filter.extend([format!(" AND ({id} OR {title} OR {epic})")]);
        }
    }

    /// Binds a text and returns its place.
    fn bind(&mut self, text: String) -> String {
        self.binds.push(Bind::Text(text));
        format!("{}{}", self.mark, self.binds.len())
    }

    fn narrow(&mut self, filter: &mut String, column: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.binds.push(Bind::Text(crate::rows::clean(value)));
            let place = self.binds.len();
            filter.push_str(" AND ");
            filter.push_str(column);
            filter.push_str(" = ");
            filter.push(self.mark);
            filter.push_str(&place.to_string());
        }
    }

    fn done(self, sql: String) -> Listing {
        Listing {
            sql,
            binds: self.binds,
            most: self.most,
            goes_on: true,
        }
    }
}
